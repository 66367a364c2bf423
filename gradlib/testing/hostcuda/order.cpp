// What comes before what: streams, events, and clocks that tell whether one piece of work waits for another; graphs of captured work.
//
// Work runs at once, in the order of the program. Every stream counts its work and keeps a clock: for each stream how much of that
// stream's work is over before its own next piece begins. memory.cpp asks these clocks whether a use of memory is a race.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <thread>

#include "driver.h"
#include "hostcuda.h"

namespace hostcuda {

// A capture under way: the graph it fills, the stream it began in, and the place in the graph that each of its streams has reached.
struct Capture {
    Stream* origin;
    int mode;  // 0 global, 1 of the thread, 2 relaxed
    std::thread::id thread;
    std::vector<Work> work;
    std::vector<std::pair<Stamp, Clock>> places;  // of each piece of work, in clocks of the capture's own
    std::map<Stream*, Clock> clocks;
    int error = SUCCESS;
};

namespace {

struct Graph {
    std::vector<Work> work;
};

struct Event {
    unsigned flags;
    int device;
    std::optional<Clock> clock;  // empty until it is recorded
    std::uint64_t tick = 0;
    bool asked = false;
    std::shared_ptr<Capture> capture;  // where it was recorded in a capture, and
    Clock place;                       // what comes before it there
    bool timed() const { return (flags & 2) == 0; }
};

std::map<void*, std::unique_ptr<Stream>> streams;  // beside the default ones
std::uintptr_t next_handle = 0x5000;                // no handle comes twice: CuPy's pool keeps memory by the handle of its stream
std::set<void*> events;
std::map<void*, std::shared_ptr<Graph>> graphs, launchable;
Clock host;               // what the host has waited for
Clock departed[DEVICES];  // the work of streams that were destroyed
std::vector<std::uint64_t> counts;  // by number of a stream: how much work it was ever given
std::vector<int> free_numbers;
std::uint64_t ticks = 0;
std::vector<Capture*> captures;  // under way
thread_local int thread_mode = 0;  // what this thread is refused while captures are under way, as the modes of captures

int new_number() {
    if (free_numbers.size() > 64) {  // the numbers of streams that are gone, the oldest first
        const int number = free_numbers.front();
        free_numbers.erase(free_numbers.begin());
        return number;
    }
    counts.push_back(0);
    return int(counts.size()) - 1;
}

std::unique_ptr<Stream> make_stream(int device, unsigned flags, int priority, bool legacy) {
    auto stream = std::make_unique<Stream>();
    stream->number = new_number();
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    stream->legacy = legacy;
    stream->asked = false;
    return stream;
}

Stream& legacy_stream(int device) {
    static std::unique_ptr<Stream> all[DEVICES];
    if (!all[device]) all[device] = make_stream(device, 0, 0, true);
    return *all[device];
}

std::map<std::pair<int, int>, std::unique_ptr<Stream>> thread_streams;  // of a thread and a device

Stream& thread_stream(int device) {
    static int threads = 0;
    thread_local const int thread = threads++;
    auto& stream = thread_streams[{thread, device}];
    if (!stream) stream = make_stream(device, 0, 0, false);
    return *stream;
}

void join(Clock& clock, const Clock& other) {
    if (clock.size() < other.size()) clock.resize(other.size());
    for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

template <typename F>
void for_streams_of(int device, F f) {
    for (auto& [handle, stream] : streams)
        if (stream->device == device) f(*stream);
    for (auto& [key, stream] : thread_streams)
        if (stream->device == device) f(*stream);
}

// What the next piece of work of a stream waits for without being told: the legacy default stream and blocking streams wait for each other.
void await_neighbours(Stream& stream) {
    join(stream.clock, host);
    if (!stream.blocking()) return;
    if (stream.legacy)
        for_streams_of(stream.device, [&](Stream& other) {
            if (other.blocking()) join(stream.clock, other.clock);
        });
    else
        join(stream.clock, legacy_stream(stream.device).clock);
}

Stamp count_work(Stream& stream) {
    await_neighbours(stream);
    if (stream.clock.size() <= std::size_t(stream.number)) stream.clock.resize(stream.number + 1);
    stream.clock[stream.number] = ++counts[stream.number];
    stream.asked = false;
    return {stream.number, counts[stream.number]};
}

int run_now(Stream& stream, const Work& work) {
    const Stamp stamp = count_work(stream);
    if (has_faulted()) return SUCCESS;
    if (const int error = touch(stream, stamp, work)) return fail(error);
    return fail(late(work.run(stream, stamp)));
}

int break_capture(Capture& capture, int error) {
    capture.error = CAPTURE_INVALIDATED;
    return fail(error);
}

Stamp captured_stamp(Capture& capture, Stream& stream) {
    Clock& clock = capture.clocks[&stream];
    if (clock.size() <= std::size_t(stream.number)) clock.resize(stream.number + 1);
    return {stream.number, ++clock[stream.number]};
}

int keep(Capture& capture, Stream& stream, Work work) {
    if (capture.error) return fail(capture.error);
    if (const int error = bind(work)) return fail(error);
    const Stamp stamp = captured_stamp(capture, stream);
    capture.places.emplace_back(stamp, capture.clocks[&stream]);
    capture.work.push_back(std::move(work));
    return SUCCESS;
}

// Branches of one capture that touch the same memory with nothing between, as streams do.
void check_branches(const Capture& capture) {
    if (capture.clocks.size() < 2) return;
    for (std::size_t later = 0; later < capture.work.size(); ++later)
        for (std::size_t earlier = 0; earlier < later; ++earlier) {
            if (covers(capture.places[later].second, capture.places[earlier].first)) continue;
            for (const Range& a : capture.work[earlier].ranges)
                for (const Range& b : capture.work[later].ranges)
                    if ((a.write || b.write) && a.from < b.from + b.bytes && b.from < a.from + a.bytes) {
                        hazard(text_of("%s and %s are on two branches of a graph with nothing between, and one writes what the other uses",
                                       capture.work[earlier].name.c_str(), capture.work[later].name.c_str()));
                        return;
                    }
        }
}

// Whether the legacy stream would wait for a stream that captures, which no capture allows.
Capture* captured_beside(const Stream& stream) {
    if (!stream.legacy) return nullptr;
    Capture* found = nullptr;
    for_streams_of(stream.device, [&](Stream& other) {
        if (other.blocking() && other.capture) found = other.capture.get();
    });
    return found;
}

Event* find_event(void* handle) { return events.count(handle) ? static_cast<Event*>(handle) : nullptr; }

bool over(const Clock& clock) {
    for (std::size_t i = 0; i < clock.size(); ++i)
        if (clock[i] > (i < host.size() ? host[i] : 0)) return false;
    return true;
}

// A query's answer: "not ready" the first time, so that whoever asks takes that way too, and then it is.
int answer(const Clock& clock, bool& asked) {
    if (over(clock)) return SUCCESS;
    if (!asked) return asked = true, NOT_READY;
    host_waits(clock);
    return SUCCESS;
}

}  // namespace

Stream* find_stream(void* handle) {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    if (number <= 1) return &legacy_stream(current_device());
    if (number == 2) return &thread_stream(current_device());
    const auto found = streams.find(handle);
    return found == streams.end() ? nullptr : found->second.get();
}

bool covers(const Clock& clock, Stamp stamp) { return std::size_t(stamp.stream) < clock.size() && clock[stamp.stream] >= stamp.count; }

bool host_waited_for(Stamp stamp) { return covers(host, stamp); }

void host_waits(const Clock& clock) {
    join(host, clock);
    copies_arrive();
}

void host_waits_for_all(int device) {
    Clock all = legacy_stream(device).clock;
    join(all, departed[device]);
    for_streams_of(device, [&](Stream& stream) { join(all, stream.clock); });
    host_waits(all);
}

void meet_devices(int one, int other) {
    Stream &a = legacy_stream(one), &b = legacy_stream(other);
    await_neighbours(a);
    await_neighbours(b);
    join(a.clock, b.clock);
    join(b.clock, a.clock);
}

int submit(Stream& stream, Work work) {
    if (stream.capture) return keep(*stream.capture, stream, std::move(work));
    if (Capture* capture = captured_beside(stream)) return break_capture(*capture, CAPTURE_IMPLICIT);
    return run_now(stream, work);
}

int refuse_while_capturing() {
    if (thread_mode == 2) return SUCCESS;
    for (Capture* capture : captures) {
        const bool own = capture->thread == std::this_thread::get_id();
        if (own ? capture->mode != 2 : capture->mode == 0 && thread_mode == 0) return break_capture(*capture, CAPTURE_UNSUPPORTED);
    }
    return SUCCESS;
}

}  // namespace hostcuda

using namespace hostcuda;

#define FIND(stream, handle)                    \
    Hold hold(gate);                            \
    Stream* const stream = find_stream(handle); \
    if (!stream) return fail(INVALID_HANDLE)
#define FIND_EVENT(event, handle)             \
    Hold hold(gate);                          \
    Event* const event = find_event(handle);  \
    if (!event) return fail(INVALID_HANDLE)

extern "C" {

// ---- streams

int cudaStreamCreateWithPriority(void** handle, unsigned flags, int priority) {
    Hold hold(gate);
    if (flags > 1) return fail(INVALID_VALUE);
    auto stream = make_stream(current_device(), flags, std::clamp(priority, -5, 0), false);
    *handle = reinterpret_cast<void*>(next_handle += 16);
    streams[*handle] = std::move(stream);
    return SUCCESS;
}

int cudaStreamCreateWithFlags(void** handle, unsigned flags) { return cudaStreamCreateWithPriority(handle, flags, 0); }
int cudaStreamCreate(void** handle) { return cudaStreamCreateWithPriority(handle, 0, 0); }

int cudaStreamDestroy(void* handle) {
    FIND(stream, handle);
    if (!streams.count(handle)) return fail(INVALID_HANDLE);
    if (stream->capture) return break_capture(*stream->capture, CAPTURE_UNSUPPORTED);
    if (stream->blocking()) join(legacy_stream(stream->device).clock, stream->clock);  // its work is still waited for
    join(departed[stream->device], stream->clock);
    free_numbers.push_back(stream->number);
    streams.erase(handle);
    return SUCCESS;
}

int cudaStreamGetFlags(void* handle, unsigned* flags) {
    FIND(stream, handle);
    *flags = stream->flags;
    return SUCCESS;
}

int cudaStreamGetPriority(void* handle, int* priority) {
    FIND(stream, handle);
    *priority = stream->priority;
    return SUCCESS;
}

int cudaStreamSynchronize(void* handle) {
    FIND(stream, handle);
    if (stream->capture) return break_capture(*stream->capture, CAPTURE_UNSUPPORTED);
    if (Capture* capture = captured_beside(*stream)) return break_capture(*capture, CAPTURE_IMPLICIT);
    if (const int error = note_host_wait("cudaStreamSynchronize")) return fail(error);
    await_neighbours(*stream);
    host_waits(stream->clock);
    return SUCCESS;
}

int cudaStreamQuery(void* handle) {
    FIND(stream, handle);
    if (stream->capture) return break_capture(*stream->capture, CAPTURE_UNSUPPORTED);
    await_neighbours(*stream);
    return answer(stream->clock, stream->asked);
}

int cudaDeviceSynchronize() {
    Hold hold(gate);
    for (Capture* capture : captures)  // in every mode: a device that is waited for holds the stream that captures
        if (capture->origin->device == current_device()) return break_capture(*capture, CAPTURE_UNSUPPORTED);
    if (const int error = note_host_wait("cudaDeviceSynchronize")) return fail(error);
    host_waits_for_all(current_device());
    return SUCCESS;
}

int cudaStreamWaitEvent(void* handle, void* event_handle, unsigned) {
    FIND(stream, handle);
    Event* const event = find_event(event_handle);
    if (!event) return fail(INVALID_HANDLE);
    if (event->capture) {
        if (stream->capture && stream->capture != event->capture) return fail(CAPTURE_MERGE);
        if (stream->legacy) return fail(CAPTURE_IMPLICIT);
        stream->capture = event->capture;  // the stream joins the capture
        join(stream->capture->clocks[stream], event->place);
        return SUCCESS;
    }
    if (stream->capture) return event->clock ? fail(CAPTURE_UNSUPPORTED) : SUCCESS;
    if (event->clock) join(stream->clock, *event->clock);
    return SUCCESS;
}

int cuStreamGetCtx(void* handle, void** context) {
    FIND(stream, handle);
    *context = reinterpret_cast<void*>(std::intptr_t(stream->device) + 1);
    return SUCCESS;
}

// Host functions run outside the lock: they may need another one that a waiting thread holds.
int cudaLaunchHostFunc(void* handle, void (*function)(void*), void* data) {
    {
        FIND(stream, handle);
        Work work{"cudaLaunchHostFunc", {}, [](Stream& s, Stamp) { return host_waits(s.clock), SUCCESS; }};
        if (stream->capture) work.run = [=](Stream& s, Stamp) { return host_waits(s.clock), function(data), SUCCESS; };
        const bool later = stream->capture != nullptr;
        const int error = submit(*stream, std::move(work));
        if (error || later) return error;
    }
    function(data);
    return SUCCESS;
}

int cudaStreamAddCallback(void* handle, void (*function)(void*, int, void*), void* data, unsigned) {
    {
        FIND(stream, handle);
        if (stream->capture) return break_capture(*stream->capture, CAPTURE_UNSUPPORTED);
        if (const int error = submit(*stream, {"cudaStreamAddCallback", {}, [](Stream& s, Stamp) { return host_waits(s.clock), SUCCESS; }}))
            return error;
    }
    function(handle, SUCCESS, data);
    return SUCCESS;
}

// ---- events

int cudaEventCreateWithFlags(void** handle, unsigned flags) {
    Hold hold(gate);
    Event* const event = new Event{flags, current_device(), {}, 0, false, {}, {}};
    events.insert(event);
    *handle = event;
    return SUCCESS;
}

int cudaEventCreate(void** handle) { return cudaEventCreateWithFlags(handle, 0); }

int cudaEventDestroy(void* handle) {
    FIND_EVENT(event, handle);
    events.erase(handle);
    delete event;
    return SUCCESS;
}

int cudaEventRecord(void* handle, void* stream_handle) {
    FIND(stream, stream_handle);
    Event* const event = find_event(handle);
    if (!event || event->device != stream->device) return fail(INVALID_HANDLE);
    if (stream->capture) {
        if (stream->capture->error) return fail(stream->capture->error);
        captured_stamp(*stream->capture, *stream);
        event->capture = stream->capture;
        event->place = stream->capture->clocks[stream];
        return SUCCESS;
    }
    if (Capture* capture = captured_beside(*stream)) return break_capture(*capture, CAPTURE_IMPLICIT);
    count_work(*stream);
    event->capture = nullptr;
    event->clock = stream->clock;
    event->tick = ++ticks;
    event->asked = false;
    return SUCCESS;
}

int cudaEventQuery(void* handle) {
    FIND_EVENT(event, handle);
    if (event->capture) return break_capture(*event->capture, CAPTURED_EVENT);
    return event->clock ? answer(*event->clock, event->asked) : SUCCESS;
}

int cudaEventSynchronize(void* handle) {
    FIND_EVENT(event, handle);
    if (event->capture) return break_capture(*event->capture, CAPTURED_EVENT);
    if (const int error = note_host_wait("cudaEventSynchronize")) return fail(error);
    if (event->clock) host_waits(*event->clock);
    return SUCCESS;
}

// One millisecond for each event recorded from the first to the second, in the whole process: times repeat, and mean nothing else.
int cudaEventElapsedTime(float* milliseconds, void* start_handle, void* end_handle) {
    FIND_EVENT(start, start_handle);
    Event* const end = find_event(end_handle);
    if (!end || !start->clock || !end->clock || !start->timed() || !end->timed() || start->device != end->device)
        return fail(INVALID_HANDLE);
    if (!over(*start->clock) || !over(*end->clock)) return NOT_READY;
    *milliseconds = float(std::int64_t(end->tick - start->tick));
    return SUCCESS;
}

int cudaEventElapsedTime_v2(float* milliseconds, void* start, void* end) { return cudaEventElapsedTime(milliseconds, start, end); }

// ---- graphs

int cudaStreamBeginCapture(void* handle, int mode) {
    FIND(stream, handle);
    if (stream->legacy) return fail(CAPTURE_UNSUPPORTED);
    if (stream->capture) return fail(ILLEGAL_STATE);
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->clocks[stream];
    captures.push_back(stream->capture.get());
    return SUCCESS;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
    if (*mode < 0 || *mode > 2) return fail(INVALID_VALUE);
    std::swap(*mode, thread_mode);
    return SUCCESS;
}

int cudaStreamIsCapturing(void* handle, int* status) {
    FIND(stream, handle);
    if (captured_beside(*stream)) return fail(CAPTURE_IMPLICIT);
    *status = !stream->capture ? 0 : stream->capture->error ? 2 : 1;
    return SUCCESS;
}

int cudaStreamEndCapture(void* handle, void** graph) {
    FIND(stream, handle);
    *graph = nullptr;
    const auto capture = stream->capture;
    if (!capture) return fail(ILLEGAL_STATE);
    if (capture->origin != stream) return fail(CAPTURE_UNMATCHED);
    int error = capture->error;
    for (auto& [branch, clock] : capture->clocks) {
        if (branch != stream && !error && !covers(capture->clocks[stream], {branch->number, clock[branch->number]})) error = CAPTURE_UNJOINED;
        branch->capture = nullptr;
    }
    captures.erase(std::find(captures.begin(), captures.end(), capture.get()));
    if (error) return fail(error);
    check_branches(*capture);
    auto made = std::make_shared<Graph>();
    made->work = std::move(capture->work);
    *graph = made.get();
    graphs[*graph] = std::move(made);
    return SUCCESS;
}

int cuGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
    Hold hold(gate);
    const auto found = graphs.find(graph);
    if (found == graphs.end() || nodes) return fail(INVALID_VALUE);
    *count = found->second->work.size();
    return SUCCESS;
}

int cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
    Hold hold(gate);
    const auto found = graphs.find(graph);
    if (found == graphs.end()) return fail(INVALID_VALUE);
    auto* const handle = new std::shared_ptr<Graph>(found->second);
    launchable[handle] = found->second;
    *executable = handle;
    return SUCCESS;
}

int cudaGraphLaunch(void* executable, void* handle) {
    FIND(stream, handle);
    const auto found = launchable.find(executable);
    if (found == launchable.end()) return fail(INVALID_VALUE);
    for (const Work& work : found->second->work)
        if (const int error = submit(*stream, work)) return error;
    return SUCCESS;
}

int cudaGraphUpload(void* executable, void*) {
    Hold hold(gate);
    return launchable.count(executable) ? SUCCESS : fail(INVALID_VALUE);
}

// The captured work as a DOT file, one node behind another in the order in which it was captured.
int cudaGraphDebugDotPrint(void* graph, const char* path, unsigned) {
    Hold hold(gate);
    const auto found = graphs.find(graph);
    std::FILE* const file = found == graphs.end() ? nullptr : std::fopen(path, "w");
    if (!file) return fail(INVALID_VALUE);
    std::fputs("digraph {\n", file);
    const auto& work = found->second->work;
    for (std::size_t i = 0; i < work.size(); ++i) {
        std::fprintf(file, "    n%zu [label=\"%s\"];\n", i, work[i].name.c_str());
        if (i) std::fprintf(file, "    n%zu -> n%zu;\n", i - 1, i);
    }
    std::fputs("}\n", file);
    return std::fclose(file) ? fail(INVALID_VALUE) : SUCCESS;
}

int cudaGraphDestroy(void* graph) {
    Hold hold(gate);
    return graphs.erase(graph) ? SUCCESS : fail(INVALID_VALUE);
}

int cudaGraphExecDestroy(void* executable) {
    Hold hold(gate);
    if (!launchable.erase(executable)) return fail(INVALID_VALUE);
    delete static_cast<std::shared_ptr<Graph>*>(executable);
    return SUCCESS;
}

// ---- what the libraries call

static thread_local std::map<void*, std::vector<Range>> declared;

static void declare(void* stream, const void* pointer, std::size_t bytes, bool write) {
    if (bytes) declared[stream].push_back({static_cast<char*>(const_cast<void*>(pointer)), bytes, write});
}

void hostcuda_reads(void* stream, const void* pointer, std::size_t bytes) { declare(stream, pointer, bytes, false); }
void hostcuda_writes(void* stream, const void* pointer, std::size_t bytes) { declare(stream, pointer, bytes, true); }

int hostcuda_enqueue(void* handle, hostcuda_work work, void* data, hostcuda_work release, const char* name) {
    const std::shared_ptr<void> owned(data, [release](void* held) {
        if (release) release(held);
    });
    std::vector<Range> ranges = std::move(declared[handle]);
    declared.erase(handle);
    if (work_skipped) return SUCCESS;
    FIND(stream, handle);
    return submit(*stream, {name, std::move(ranges), [=](Stream&, Stamp) { return work(owned.get()), SUCCESS; }});
}

int hostcuda_wait(void* stream) { return cudaStreamSynchronize(stream); }
}
