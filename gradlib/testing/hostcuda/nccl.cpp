// NCCL for CuPy, between processes of one machine: every collective is made of pieces that ranks put into mailboxes in shared memory.
//
// A pair of ranks has a mailbox for each direction, which holds one piece. The pieces of an exchange move in turns, so that sends and
// receives may stand in any order; sums are taken in the order of the ranks, the same on all. A rank that waits for 60 seconds in vain fails.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "library.h"
#include "numbers.h"

namespace {

using namespace hostcuda;

constexpr int SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, REMOTE_ERROR = 6;
constexpr std::size_t PIECE = 1 << 16;
constexpr auto PATIENCE = std::chrono::seconds(60);

struct Id {
    char name[128];
};

struct Mailbox {
    std::atomic<unsigned> bytes;  // 0: empty
    char data[PIECE];
};

struct Comm {
    int size, rank, failed = SUCCESS;
    Mailbox* boxes;
    Mailbox& box(int from, int to) { return boxes[std::size_t(from) * size + to]; }
};

struct Transfer {
    int peer;
    char* data;
    std::size_t left;
    bool sends;
};

// Move one piece of a transfer if its mailbox allows.
bool moved(Comm& comm, Transfer& t) {
    Mailbox& box = t.sends ? comm.box(comm.rank, t.peer) : comm.box(t.peer, comm.rank);
    const unsigned held = box.bytes.load(std::memory_order_acquire);
    if (t.sends == (held != 0)) return false;
    const std::size_t count = t.sends ? std::min(t.left, PIECE) : held;
    if (count > t.left) return comm.failed = INVALID_ARGUMENT, true;
    std::memcpy(t.sends ? box.data : t.data, t.sends ? t.data : box.data, count);
    box.bytes.store(t.sends ? unsigned(count) : 0u, std::memory_order_release);
    t.data += count, t.left -= count;
    return true;
}

void exchange(Comm& comm, std::vector<Transfer> transfers) {
    auto last = std::chrono::steady_clock::now();
    for (bool busy = true; busy && !comm.failed;) {
        bool any = busy = false;
        std::vector<bool> sent(comm.size), received(comm.size);  // messages between two ranks keep their order
        for (Transfer& t : transfers) {
            auto&& taken = (t.sends ? sent : received)[t.peer];
            if (!t.left || taken) continue;
            taken = busy = true;
            any |= moved(comm, t);
        }
        const auto now = std::chrono::steady_clock::now();
        if (any) last = now;
        else if (now - last > PATIENCE) comm.failed = REMOTE_ERROR;
        else sched_yield();
    }
}

std::size_t item_size(int type) {
    const std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < 10 ? sizes[type] : 0;
}

template <class T> void combine(T* total, const T* more, std::size_t count, int op) {
    using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
    for (std::size_t i = 0; i < count; ++i) {
        const Wide a = Wide(total[i]), b = Wide(more[i]);
        total[i] = T(Wide(op == 1 ? a * b : op == 2 ? (a < b ? b : a) : op == 3 ? (b < a ? b : a) : a + b));
    }
}

template <class T> void average(T* total, std::size_t count, int size) {
    for (std::size_t i = 0; i < count; ++i) total[i] = T(total[i] / size);
}

// Combine what lies behind one another, count elements of each rank, into result. Half types are summed in their own width, as NCCL does.
template <class T> void reduced(const std::vector<char>& parts, void* result, std::size_t count, int op, int size) {
    T* total = static_cast<T*>(result);
    const T* each = reinterpret_cast<const T*>(parts.data());
    std::memcpy(result, each, count * sizeof(T));
    for (int rank = 1; rank < size; ++rank) combine(total, each + rank * count, count, op);
    if (op == 4) average(total, count, size);
}

void reduce_parts(const std::vector<char>& parts, void* result, std::size_t count, int type, int op, int size) {
    switch (type) {
        case 0: return reduced<int8_t>(parts, result, count, op, size);
        case 1: return reduced<uint8_t>(parts, result, count, op, size);
        case 2: return reduced<int32_t>(parts, result, count, op, size);
        case 3: return reduced<uint32_t>(parts, result, count, op, size);
        case 4: return reduced<int64_t>(parts, result, count, op, size);
        case 5: return reduced<uint64_t>(parts, result, count, op, size);
        case 6: return reduced<Half>(parts, result, count, op, size);
        case 7: return reduced<float>(parts, result, count, op, size);
        case 8: return reduced<double>(parts, result, count, op, size);
        default: return reduced<BFloat16>(parts, result, count, op, size);
    }
}

// Each rank sends every other the piece for it, and gets theirs: from[i] to rank i, of rank i into to[i].
void swap(Comm& comm, const std::vector<char*>& from, const std::vector<char*>& to, std::size_t bytes) {
    std::vector<Transfer> transfers;
    for (int i = 0; i < comm.size; ++i) {
        if (i == comm.rank) {
            if (from[i] && to[i] && from[i] != to[i]) std::memmove(to[i], from[i], bytes);
            continue;
        }
        if (from[i]) transfers.push_back({i, from[i], bytes, true});
        if (to[i]) transfers.push_back({i, to[i], bytes, false});
    }
    exchange(comm, std::move(transfers));
}

std::vector<char*> places(int size, char* start, std::size_t step) {
    std::vector<char*> found(size);
    for (int i = 0; i < size; ++i) found[i] = start + step * i;
    return found;
}

std::vector<char*> only(int size, int which, char* place) {
    std::vector<char*> found(size);
    found[which] = place;
    return found;
}

thread_local int depth = 0;
thread_local std::vector<Transfer> grouped;
thread_local Comm* grouped_comm = nullptr;
thread_local void* grouped_stream = nullptr;

int flush() {
    if (grouped.empty()) return SUCCESS;
    Comm* comm = grouped_comm;
    std::vector<Transfer> transfers;
    transfers.swap(grouped);
    Call call(grouped_stream, "ncclGroupEnd");
    for (const Transfer& t : transfers) t.sends ? call.reads({t.data, t.left}) : call.writes({t.data, t.left});
    std::vector<Transfer> own, others;
    for (const Transfer& t : transfers) (t.peer == comm->rank ? own : others).push_back(t);
    return call.run([comm, own, others] {
        for (const Transfer& in : own)
            for (const Transfer& out : own)
                if (!in.sends && out.sends) std::memmove(in.data, out.data, std::min(in.left, out.left));
        exchange(*comm, others);
    });
}

int later(void* data, std::size_t count, int type, int peer, Comm* comm, void* stream, bool sends) {
    if (!item_size(type) || peer < 0 || peer >= comm->size) return INVALID_ARGUMENT;
    grouped.push_back({peer, static_cast<char*>(data), count * item_size(type), sends});
    grouped_comm = comm, grouped_stream = stream;
    return depth ? SUCCESS : flush();
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) { return *version = 22000, SUCCESS; }

int ncclGetUniqueId(Id* id) {
    std::random_device draw;
    *id = Id();
    std::snprintf(id->name, sizeof id->name, "/hostcuda-nccl-%08x%08x%08x%08x", draw(), draw(), draw(), draw());
    return SUCCESS;
}

int ncclCommInitRankConfig(Comm** made, int size, Id id, int rank, void*) {
    if (size < 1 || rank < 0 || rank >= size) return INVALID_ARGUMENT;
    const std::size_t boxes = sizeof(Mailbox) * size * size, bytes = boxes + sizeof(std::atomic<int>);
    const int file = shm_open(id.name, O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, off_t(bytes))) return SYSTEM_ERROR;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return SYSTEM_ERROR;
    auto& here = *reinterpret_cast<std::atomic<int>*>(static_cast<char*>(memory) + boxes);
    if (here.fetch_add(1) + 1 == size) shm_unlink(id.name);  // all have it; nothing is left behind
    const auto until = std::chrono::steady_clock::now() + PATIENCE;
    while (here.load() < size) {
        if (std::chrono::steady_clock::now() > until) return shm_unlink(id.name), REMOTE_ERROR;
        usleep(100);
    }
    *made = new Comm{size, rank, SUCCESS, static_cast<Mailbox*>(memory)};
    return SUCCESS;
}

int ncclCommDestroy(Comm* comm) {
    munmap(comm->boxes, sizeof(Mailbox) * comm->size * comm->size + sizeof(std::atomic<int>));
    delete comm;
    return SUCCESS;
}

int ncclCommAbort(Comm* comm) { return ncclCommDestroy(comm); }
int ncclCommCount(Comm* comm, int* count) { return *count = comm->size, SUCCESS; }
int ncclCommUserRank(Comm* comm, int* rank) { return *rank = comm->rank, SUCCESS; }
int ncclCommCuDevice(Comm*, int* device) { return *device = 0, SUCCESS; }
int ncclCommGetAsyncError(Comm* comm, int* error) { return *error = comm->failed, SUCCESS; }
int ncclCommInitAll(void*, int, const int*) { return INVALID_ARGUMENT; }  // several ranks of one process are not written
int ncclCommSplit(Comm*, int, int, void*, void*) { return INVALID_ARGUMENT; }
int ncclGroupStart() { return ++depth, SUCCESS; }
int ncclGroupEnd() { return --depth ? SUCCESS : flush(); }

const char* ncclGetErrorString(int status) {
    return status == SUCCESS ? "no error" : status == REMOTE_ERROR ? "another process has not come in time" : "not possible on the CPU";
}

int ncclSend(void* data, std::size_t count, int type, int peer, Comm* comm, void* stream) {
    return later(data, count, type, peer, comm, stream, true);
}

int ncclRecv(void* data, std::size_t count, int type, int peer, Comm* comm, void* stream) {
    return later(data, count, type, peer, comm, stream, false);
}

int ncclBroadcast(char* from, char* to, std::size_t count, int type, int root, Comm* comm, void* stream) {
    const std::size_t bytes = count * item_size(type);
    Call call(stream, "ncclBroadcast");
    if (comm->rank == root) call.reads({from, bytes});
    return call.writes({to, bytes}).run([=] {
        const bool sends = comm->rank == root;
        if (sends && from != to) std::memmove(to, from, bytes);
        std::vector<char*> none(comm->size);
        swap(*comm, sends ? places(comm->size, to, 0) : none, sends ? none : only(comm->size, root, to), bytes);
    });
}

int ncclBcast(char* data, std::size_t count, int type, int root, Comm* comm, void* stream) {
    return ncclBroadcast(data, data, count, type, root, comm, stream);
}

int ncclAllGather(char* from, char* to, std::size_t count, int type, Comm* comm, void* stream) {
    const std::size_t bytes = count * item_size(type);
    return Call(stream, "ncclAllGather").reads({from, bytes}).writes({to, bytes * comm->size}).run([=] {
        swap(*comm, places(comm->size, from, 0), places(comm->size, to, bytes), bytes);
    });
}

int ncclReduce(char* from, char* to, std::size_t count, int type, int op, int root, Comm* comm, void* stream) {
    const std::size_t bytes = count * item_size(type);
    Call call(stream, "ncclReduce");
    call.reads({from, bytes});
    if (comm->rank == root) call.writes({to, bytes});
    return call.run([=] {
        std::vector<char> parts(comm->rank == root ? bytes * comm->size : 0);
        std::vector<char*> none(comm->size);
        swap(*comm, only(comm->size, root, from), comm->rank == root ? places(comm->size, parts.data(), bytes) : none, bytes);
        if (comm->rank == root) reduce_parts(parts, to, count, type, op, comm->size);
    });
}

int ncclAllReduce(char* from, char* to, std::size_t count, int type, int op, Comm* comm, void* stream) {
    const std::size_t bytes = count * item_size(type);
    return Call(stream, "ncclAllReduce").reads({from, bytes}).writes({to, bytes}).run([=] {
        std::vector<char> parts(bytes * comm->size);
        swap(*comm, places(comm->size, from, 0), places(comm->size, parts.data(), bytes), bytes);
        reduce_parts(parts, to, count, type, op, comm->size);
    });
}

int ncclReduceScatter(char* from, char* to, std::size_t count, int type, int op, Comm* comm, void* stream) {
    const std::size_t bytes = count * item_size(type);
    return Call(stream, "ncclReduceScatter").reads({from, bytes * comm->size}).writes({to, bytes}).run([=] {
        std::vector<char> parts(bytes * comm->size);
        swap(*comm, places(comm->size, from, bytes), places(comm->size, parts.data(), bytes), bytes);
        reduce_parts(parts, to, count, type, op, comm->size);
    });
}
}
