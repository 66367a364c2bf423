// What the driver's own files share: one lock, devices, streams and their clocks, memory and who used it, work and where it waits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hostcuda {

inline constexpr int DEVICES = 2;
inline constexpr unsigned char POISON = 0xff;  // NaN in every floating type, -1 in every integer one

// Errors of CUDA that the driver returns; the driver's and the runtime's numbers are the same. HAZARD is ours.
enum Error : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_PEER_ACCESS = 217,
    INVALID_SOURCE = 300,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    PEER_ENABLED = 704,
    PEER_NOT_ENABLED = 705,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    HAZARD = 998,
};

extern std::recursive_mutex gate;  // held by every entry of the driver: its state has one user at a time
using Hold = std::lock_guard<std::recursive_mutex>;

// ---- device.cpp

int current_device();
int fail(int error);                       // remembers what cudaGetLastError returns; returns its argument
int hazard(const std::string& what);       // records what a GPU would do without a word and get wrong; returns HAZARD
std::string text_of(const char* format, ...) __attribute__((format(printf, 1, 2)));

extern bool work_skipped;  // launches, copies and fills do nothing, so that what they cost the host can be measured

// A fault of a kernel or copy that has run: itself, or within hostcuda.late_faults() no error until the host waits.
int late(int error);
bool has_faulted();  // so that the device does nothing more

// What passes between the host and a device, counted by what makes it; HAZARD where waits are refused just now, and the error of a fault
// that shows late.
int note_host_wait(const std::string& what);
void note_copy_to_device(const std::string& what);

// ---- order.cpp

using Clock = std::vector<std::uint64_t>;  // by number of a stream: how many of its pieces of work are over

struct Stamp {
    int stream;
    std::uint64_t count;
};

struct Range {
    char* from;
    std::size_t bytes;  // 0: to the end of its allocation, as a kernel sees a bare pointer
    bool write;
    std::uint64_t owner = 0;  // the allocation it lay in when a graph captured the work
};

struct Stream;

// One piece of work: what it touches, and what it does when its turn comes.
struct Work {
    std::string name;
    std::vector<Range> ranges;
    std::function<int(Stream&, Stamp)> run;
};

struct Capture;

struct Stream {
    int number;
    int device;
    unsigned flags;
    int priority;
    bool legacy;
    bool asked;  // a query has been answered with "not ready" since the last work
    Clock clock;
    std::shared_ptr<Capture> capture;
    bool blocking() const { return (flags & 1) == 0; }
};

Stream* find_stream(void* handle);  // null for a handle that is no stream's
bool covers(const Clock& clock, Stamp stamp);
bool host_waited_for(Stamp stamp);
void host_waits(const Clock& clock);  // the host has waited for everything in a clock
void host_waits_for_all(int device);
void meet_devices(int one, int other);  // a copy between devices in the default stream: it waits for both, and both wait for it
int submit(Stream& stream, Work work);  // runs it, or keeps it in the graph that the stream captures
int refuse_while_capturing();           // what CUDA calls potentially unsafe: by the modes of the captures under way and of this thread

// ---- memory.cpp

enum class Place { nowhere, host, pinned, device };

Place place_of(const void* pointer);
int device_of(const void* pointer);        // -1 where it is not in device memory
int know_variable(void* pointer, std::size_t bytes, int device);  // of a source, on the one device that asks for it
bool inside(const void* pointer);          // in an allocation of the driver
int touch(Stream& stream, Stamp stamp, const Work& work);  // records who uses what; HAZARD where it may run beside what it needs
int bind(Work& work);                      // notes whose memory captured work uses; HAZARD for memory that is nobody's
// The allocation around an address, also where the address lies in a guard beside it.
struct Extent {
    bool known, freed;
    char* from;
    std::size_t bytes;
};
Extent extent_of(const void* pointer);
int check_guards(const Work& work);        // after a kernel: whether it wrote outside what it was given
void copies_arrive();                      // those that the host has waited for by now

}  // namespace hostcuda
