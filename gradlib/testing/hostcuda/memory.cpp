// Memory of devices and page-locked memory of the host: poisoned until written and again when freed, between guards, owned by a device;
// who used which part of it; copies, and those that the host has not waited for.
//
// CuPy takes memory in chunks and hands out pieces of them from a pool. The loader tells of every piece (hostcuda_pool_*), so that a
// piece has guards, an owner and a history of its own. A chunk that no pool has cut is one piece.
#include <algorithm>
#include <cstdlib>

#include "driver.h"
#include "hostcuda.h"

namespace hostcuda {

namespace {

constexpr std::size_t GUARD = 512;  // bytes before and behind a chunk; also how CUDA aligns
constexpr unsigned char GUARD_BYTE = 0xa5;

struct Access {
    char *from, *to;
    Stamp by;
    bool write;
    bool former;  // of the memory's former owner, before it was freed and handed out again
};

struct Piece {
    char* at;
    std::size_t asked, room;
    std::uint64_t id;
    bool captured;  // handed out while a stream captured: a graph may own it
    std::vector<Access> uses;
    bool holds(const char* from, std::size_t bytes) const { return at <= from && from + bytes <= at + asked; }
};

struct Chunk {
    char* at;
    std::size_t size;
    int device;  // -1: page-locked memory of the host
    bool cut;    // by a pool
    bool asynchronous;  // of cudaMallocAsync
    bool guarded;       // not a variable of a source, which has others beside it and is never freed
    std::map<char*, Piece> pieces;
    std::map<char*, Piece> freed;  // pieces that went back to the pool, until their memory is handed out again
};

// A copy into page-locked memory: its target holds poison until the host has waited for it.
struct LateCopy {
    char* target;
    std::vector<char> values;
    Stamp stamp;
};

// A copy from page-locked memory: what it reads must not change until it is over.
struct WatchedSource {
    const char* source;
    std::vector<char> values;
    Stamp stamp;
};

std::map<char*, Chunk> chunks;
std::vector<LateCopy> late;
std::vector<WatchedSource> watched;
std::uint64_t pieces_made = 0;
std::uint64_t used_by_pool[DEVICES], kept_by_pool[DEVICES];

Chunk* chunk_of(const void* pointer) {
    char* const at = static_cast<char*>(const_cast<void*>(pointer));
    auto next = chunks.upper_bound(at);
    if (next == chunks.begin()) return nullptr;
    Chunk& chunk = std::prev(next)->second;
    return at <= chunk.at + chunk.size ? &chunk : nullptr;
}

Piece* piece_of(std::map<char*, Piece>& pieces, char* at) {
    auto next = pieces.upper_bound(at);
    if (next == pieces.begin()) return nullptr;
    Piece& piece = std::prev(next)->second;
    return at < piece.at + std::max<std::size_t>(piece.room, 1) ? &piece : nullptr;
}

bool all_are(const char* from, std::size_t bytes, unsigned char value) {
    if (bytes == 0) return true;
    return static_cast<unsigned char>(*from) == value && std::memcmp(from, from + 1, bytes - 1) == 0;
}

// Memory that a graph may own holds, at a replay, whatever its pieces held one after another during the capture: it has no guards within.
bool guards_hold(const Piece& piece) { return piece.captured || all_are(piece.at + piece.asked, piece.room - piece.asked, GUARD_BYTE); }
bool guards_hold(const Chunk& chunk) {
    return !chunk.guarded || (all_are(chunk.at - GUARD, GUARD, GUARD_BYTE) && all_are(chunk.at + chunk.size, GUARD, GUARD_BYTE));
}

int wrote_outside(const Piece& piece, const std::string& name) {
    return hazard(text_of("%s wrote outside an allocation of %zu bytes", name.c_str(), piece.asked));
}

void add_chunk(char* at, std::size_t bytes, std::size_t room, int device, bool guarded) {
    Chunk chunk{at, room, device, false, false, guarded, {}, {}};
    chunk.pieces[at] = {at, bytes, room, ++pieces_made, false, {}};
    chunks[at] = std::move(chunk);
}

int allocate(void** made, std::size_t bytes, int device) {
    if (const int error = refuse_while_capturing()) return error;
    const std::size_t size = (bytes + GUARD - 1) / GUARD * GUARD;
    char* const block = bytes > (std::size_t(1) << 40) ? nullptr : static_cast<char*>(std::aligned_alloc(GUARD, size + 2 * GUARD));
    *made = nullptr;
    if (!block) return fail(OUT_OF_MEMORY);
    char* const at = block + GUARD;
    std::memset(block, GUARD_BYTE, GUARD);
    std::memset(at, POISON, bytes);
    std::memset(at + bytes, GUARD_BYTE, size - bytes + GUARD);
    add_chunk(at, bytes, size, device, true);
    *made = at;
    return SUCCESS;
}

void settle_copies_in(const Chunk& chunk) {
    const auto within = [&](const char* at) { return chunk.at <= at && at < chunk.at + chunk.size; };
    late.erase(std::remove_if(late.begin(), late.end(), [&](const LateCopy& copy) { return within(copy.target); }), late.end());
    watched.erase(std::remove_if(watched.begin(), watched.end(), [&](const WatchedSource& w) { return within(w.source); }), watched.end());
}

int give_back(Chunk& chunk) {
    int error = SUCCESS;
    settle_copies_in(chunk);
    for (const auto& [at, piece] : chunk.pieces)
        if (!guards_hold(piece)) error = wrote_outside(piece, "something");
    if (!error && !guards_hold(chunk)) error = hazard(text_of("something wrote outside an allocation of %zu bytes", chunk.size));
    std::memset(chunk.at, POISON, chunk.size);
    std::free(chunk.at - GUARD);
    chunks.erase(chunk.at);
    return fail(error);
}

int release(void* pointer) {
    if (!pointer) return SUCCESS;
    if (const int error = refuse_while_capturing()) return error;
    const auto found = chunks.find(static_cast<char*>(pointer));
    if (found == chunks.end() || !found->second.guarded) return fail(INVALID_VALUE);
    Chunk& chunk = found->second;
    for (int device = 0; device < DEVICES; ++device)
        if (chunk.device < 0 || chunk.device == device) host_waits_for_all(device);  // freeing waits for the device
    return give_back(chunk);
}

// Where a range lies; null with an error when nothing should touch it there, null without when nobody told of it.
Piece* placed(const std::string& name, Range& range, int& error) {
    error = SUCCESS;
    Chunk* const chunk = chunk_of(range.from);
    const char* const what = range.write ? "writes" : "reads";
    if (!chunk) {
        error = hazard(text_of("%s %s address %p, which lies in no allocation; was its owner freed?", name.c_str(), what, (void*)range.from));
        return nullptr;
    }
    Piece* const piece = piece_of(chunk->pieces, range.from);
    if (!piece) {
        if (Piece* const old = piece_of(chunk->freed, range.from); old && !old->captured)
            error = hazard(text_of("%s %s memory that has been freed", name.c_str(), what));
        return nullptr;
    }
    if (range.bytes == 0) range.bytes = piece->at + piece->asked - std::min(range.from, piece->at + piece->asked);
    if (!piece->holds(range.from, range.bytes))
        error = hazard(text_of("%s %s %zu bytes from byte %td of an allocation of %zu bytes", name.c_str(), what, range.bytes,
                               range.from - piece->at, piece->asked));
    return error ? nullptr : piece;
}

bool overlap(const Access& access, const Range& range) { return access.from < range.from + range.bytes && range.from < access.to; }

int check_order(const Stream& stream, const std::string& name, const Piece& piece, const Range& range) {
    for (const Access& earlier : piece.uses) {
        if (!(earlier.write || range.write) || !overlap(earlier, range) || covers(stream.clock, earlier.by)) continue;
        if (earlier.former) return hazard(name + " uses memory that was freed while another stream may still be using it, and handed out again");
        return hazard(text_of("stream %d %s memory that stream %d may still be using (%s); let it wait for an event", stream.number,
                              range.write ? "writes" : "reads", earlier.by.stream, name.c_str()));
    }
    return SUCCESS;
}

constexpr std::size_t MOST_USES = 32;

// Many uses become one for each stream: nothing is missed, and parts that do not overlap may be taken for such that do.
void condense(std::vector<Access>& uses) {
    if (uses.size() <= MOST_USES) return;
    std::map<std::pair<int, bool>, Access> by_stream;
    for (const Access& use : uses) {
        auto [entry, fresh] = by_stream.try_emplace({use.by.stream, use.write}, use);
        Access& all = entry->second;
        all.from = std::min(all.from, use.from);
        all.to = std::max(all.to, use.to);
        all.by.count = std::max(all.by.count, use.by.count);
        all.former &= use.former;
    }
    uses.clear();
    for (auto& [key, use] : by_stream) uses.push_back(use);
}

// A new owner of memory takes over from its former one what may still be under way there.
void inherit(Piece& piece, const Piece& former) {
    for (Access use : former.uses) {
        if (use.to <= piece.at || piece.at + piece.room <= use.from || host_waited_for(use.by)) continue;
        use.former = true;
        piece.uses.push_back(use);
    }
    condense(piece.uses);
}

// Cuts a piece out of the freed ones it lies in. Returns whether a graph used one of them.
bool take_from_freed(Chunk& chunk, Piece& piece) {
    bool captured = false;
    std::vector<Piece> rests;
    char* const end = piece.at + piece.room;
    auto entry = chunk.freed.lower_bound(piece.at);
    if (entry != chunk.freed.begin() && std::prev(entry)->second.at + std::prev(entry)->second.room > piece.at) --entry;
    while (entry != chunk.freed.end() && entry->second.at < end) {
        const Piece& former = entry->second;
        inherit(piece, former);
        captured |= former.captured;
        char* const former_end = former.at + former.room;
        for (auto [from, to] : {std::pair{former.at, piece.at}, std::pair{end, former_end}}) {
            if (from >= to) continue;
            rests.push_back(former);
            rests.back().at = from;
            rests.back().room = to - from;
        }
        entry = chunk.freed.erase(entry);
    }
    for (Piece& rest : rests) chunk.freed[rest.at] = std::move(rest);
    return captured;
}

// The pieces that a range of captured work lies in when the graph runs: those of captures, or the one it lay in then.
int replayed(const std::string& name, const Range& range, std::vector<Piece*>& found) {
    Chunk* const chunk = chunk_of(range.from);
    const char* const what = range.write ? "writes" : "reads";
    if (!chunk) return hazard(text_of("a graph runs %s, which %s memory that was given back after the capture", name.c_str(), what));
    for (auto* const pieces : {&chunk->pieces, &chunk->freed})
        for (auto& [at, piece] : *pieces) {
            if (range.from + range.bytes <= at || at + std::max<std::size_t>(piece.room, 1) <= range.from) continue;
            if (pieces == &chunk->freed && !piece.captured)
                return hazard(text_of("a graph runs %s, which %s memory that has been freed since the capture", name.c_str(), what));
            if (piece.id != range.owner && !piece.captured)
                return hazard(text_of("a graph runs %s, which %s memory that was given to someone else after the capture", name.c_str(), what));
            found.push_back(&piece);
        }
    return SUCCESS;
}

void note_use(Piece& piece, const Range& range, Stamp stamp) {
    const Access mine{range.from, range.from + range.bytes, stamp, range.write, false};
    const auto replaced = [&](const Access& other) {
        const bool within = mine.from <= other.from && other.to <= mine.to;
        return within && (mine.write || (other.by.stream == stamp.stream && !other.write));
    };
    piece.uses.erase(std::remove_if(piece.uses.begin(), piece.uses.end(), replaced), piece.uses.end());
    piece.uses.push_back(mine);
    condense(piece.uses);
}

// ---- copies

void arrive(const LateCopy& copy) {
    if (!all_are(copy.target, copy.values.size(), POISON))
        hazard(text_of("%zu bytes of page-locked memory were written by the host while a copy into them was under way", copy.values.size()));
    std::memcpy(copy.target, copy.values.data(), copy.values.size());
}

template <typename F>
void arrive_where(F wanted) {
    for (std::size_t i = 0; i < late.size();) {
        if (!wanted(late[i])) {
            ++i;
            continue;
        }
        const LateCopy copy = std::move(late[i]);
        late.erase(late.begin() + i);
        arrive(copy);
    }
}

// Work of a stream reads or writes host memory: what earlier work of it copies there has arrived by then.
void settle_before(const Stream& stream, const char* from, std::size_t bytes) {
    arrive_where([&](const LateCopy& copy) {
        return copy.target < from + bytes && from < copy.target + copy.values.size() && covers(stream.clock, copy.stamp);
    });
}

struct Copy {
    char* to;
    const char* from;
    std::size_t bytes;
    Place target, source;
};

int run_copy(const Copy& copy, Stream& stream, Stamp stamp) {
    if (copy.source == Place::pinned) {
        settle_before(stream, copy.from, copy.bytes);
        if (copy.target != Place::pinned) watched.push_back({copy.from, {copy.from, copy.from + copy.bytes}, stamp});
    }
    if (copy.target == Place::pinned) {
        settle_before(stream, copy.to, copy.bytes);
        late.push_back({copy.to, {copy.from, copy.from + copy.bytes}, stamp});
        std::memset(copy.to, POISON, copy.bytes);
        return SUCCESS;
    }
    std::memmove(copy.to, copy.from, copy.bytes);
    if (copy.target == Place::host) host_waits(stream.clock);  // a copy into ordinary memory returns when it is over
    return SUCCESS;
}

bool fits(int kind, const Copy& copy) {
    const bool to_device = copy.target == Place::device, from_device = copy.source == Place::device;
    switch (kind) {
        case 0: return !to_device && !from_device;
        case 1: return to_device && !from_device;
        case 2: return !to_device && from_device;
        case 3: return to_device && from_device;
        default: return kind == 4;
    }
}

int submit_copy(void* to, const void* from, std::size_t bytes, int kind, Stream& stream) {
    if (work_skipped) return SUCCESS;
    if (bytes == 0) return SUCCESS;
    const Copy copy{static_cast<char*>(to), static_cast<const char*>(from), bytes, place_of(to), place_of(from)};
    if (!to || !from || !fits(kind, copy)) return fail(INVALID_VALUE);
    if (copy.target == Place::device && copy.source == Place::device && copy.to != copy.from && copy.to < copy.from + bytes &&
        copy.from < copy.to + bytes)
        return fail(hazard(text_of("a copy of %zu bytes on the device whose source and target overlap", bytes)));
    if (stream.capture && (copy.target == Place::host || copy.source == Place::host)) return fail(CAPTURE_UNSUPPORTED);
    if (copy.target == Place::host && copy.source == Place::device)
        if (const int error = note_host_wait(text_of("a copy of %zu bytes to ordinary memory", bytes))) return fail(error);
    if (copy.target == Place::device && copy.source != Place::device) note_copy_to_device(text_of("a copy of %zu bytes", bytes));
    const int owner = device_of(from), receiver = device_of(to);
    if (stream.legacy && owner >= 0 && receiver >= 0 && owner != receiver) meet_devices(owner, receiver);
    Work work{"cudaMemcpyAsync", {}, [=](Stream& s, Stamp stamp) { return run_copy(copy, s, stamp); }};
    if (copy.source != Place::host) work.ranges.push_back({const_cast<char*>(copy.from), bytes, false});
    if (copy.target != Place::host) work.ranges.push_back({copy.to, bytes, true});
    const int error = submit(stream, std::move(work));
    if (stream.legacy && owner >= 0 && receiver >= 0 && owner != receiver) meet_devices(owner, receiver);
    return error;
}

int submit_fill(void* pointer, int value, std::size_t bytes, Stream& stream) {
    if (bytes == 0 || work_skipped) return SUCCESS;
    if (place_of(pointer) == Place::host) return fail(INVALID_VALUE);
    char* const at = static_cast<char*>(pointer);
    return submit(stream, {"cudaMemsetAsync", {{at, bytes, true}}, [=](Stream&, Stamp) { return std::memset(at, value, bytes), SUCCESS; }});
}

}  // namespace

Place place_of(const void* pointer) {
    const Chunk* const chunk = chunk_of(pointer);
    return !chunk ? Place::host : chunk->device < 0 ? Place::pinned : Place::device;
}

int device_of(const void* pointer) {
    const Chunk* const chunk = chunk_of(pointer);
    return chunk ? chunk->device : -1;
}

int know_variable(void* pointer, std::size_t bytes, int device) {
    char* const at = static_cast<char*>(pointer);
    const auto found = chunks.find(at);
    if (found != chunks.end()) return found->second.device == device ? SUCCESS : fail(NOT_SUPPORTED);
    add_chunk(at, bytes, bytes, device, false);
    return SUCCESS;
}

Extent extent_of(const void* pointer) {
    char* const at = static_cast<char*>(const_cast<void*>(pointer));
    const auto next = chunks.upper_bound(at);
    const auto within = [&](Chunk& chunk) {
        const std::size_t beside = chunk.guarded ? GUARD : 0;
        return chunk.at - beside <= at && at < chunk.at + chunk.size + beside;
    };
    Chunk* const chunk = next != chunks.end() && within(next->second)                       ? &next->second
                         : next != chunks.begin() && within(std::prev(next)->second) ? &std::prev(next)->second
                                                                                      : nullptr;
    if (!chunk) return {};
    char* const inner = std::clamp(at, chunk->at, chunk->at + std::max<std::size_t>(chunk->size, 1) - 1);
    const Piece* const piece = piece_of(chunk->pieces, inner);
    if (piece && !piece->captured) return {true, false, piece->at, piece->asked};
    if (piece) return {true, false, chunk->at, chunk->size};  // a graph's, which was cut otherwise when it was captured
    const Piece* const old = piece_of(chunk->freed, inner);
    return {true, old && !old->captured, chunk->at, chunk->size};
}

bool inside(const void* pointer) { return chunk_of(pointer) != nullptr; }

int touch(Stream& stream, Stamp stamp, const Work& work) {
    int error = SUCCESS;
    std::vector<std::pair<Piece*, Range>> uses;
    for (Range range : work.ranges) {
        std::vector<Piece*> pieces;
        if (range.owner)
            error = replayed(work.name, range, pieces);
        else if (Piece* const piece = placed(work.name, range, error))
            pieces.push_back(piece);
        if (error) return error;
        for (Piece* const piece : pieces) {
            // The work's own stamp is in the stream's clock already, so it does not meet itself.
            if ((error = check_order(stream, work.name, *piece, range))) return error;
            uses.emplace_back(piece, range);
        }
    }
    for (auto& [piece, range] : uses) note_use(*piece, range, stamp);
    return SUCCESS;
}

int bind(Work& work) {
    int error = SUCCESS;
    for (Range& range : work.ranges) {
        if (range.owner) continue;  // of a graph that this one holds
        Piece* const piece = placed(work.name, range, error);
        if (error) return error;
        if (piece) range.owner = piece->id;
    }
    return SUCCESS;
}

int check_guards(const Work& work) {
    for (const Range& range : work.ranges) {
        Chunk* const chunk = chunk_of(range.from);
        if (!chunk) continue;
        const Piece* const piece = piece_of(chunk->pieces, range.from);
        const bool whole = guards_hold(*chunk);
        if (whole && (!piece || guards_hold(*piece))) continue;
        if (piece) std::memset(piece->at + piece->asked, GUARD_BYTE, piece->room - piece->asked);
        std::memset(chunk->at - GUARD, GUARD_BYTE, GUARD);
        std::memset(chunk->at + chunk->size, GUARD_BYTE, GUARD);
        if (piece) return wrote_outside(*piece, work.name);
        return hazard(text_of("%s wrote outside an allocation of %zu bytes", work.name.c_str(), chunk->size));
    }
    return SUCCESS;
}

void copies_arrive() {
    arrive_where([](const LateCopy& copy) { return host_waited_for(copy.stamp); });
    for (std::size_t i = 0; i < watched.size();) {
        if (!host_waited_for(watched[i].stamp)) {
            ++i;
            continue;
        }
        const WatchedSource seen = std::move(watched[i]);
        watched.erase(watched.begin() + i);
        if (std::memcmp(seen.source, seen.values.data(), seen.values.size()) != 0)
            hazard(text_of("%zu bytes of page-locked memory changed while a copy from them was under way", seen.values.size()));
    }
}

}  // namespace hostcuda

using namespace hostcuda;

#define FIND(stream, handle)                    \
    Hold hold(gate);                            \
    Stream* const stream = find_stream(handle); \
    if (!stream) return fail(INVALID_HANDLE)

extern "C" {

int cudaMalloc(void** made, std::size_t bytes) {
    Hold hold(gate);
    return allocate(made, bytes, current_device());
}

int cudaMallocManaged(void** made, std::size_t bytes, unsigned) { return cudaMalloc(made, bytes); }

// In the order of a stream: whoever uses the memory before that, or after it was given back, must be ordered with the stream.
int cudaMallocAsync(void** made, std::size_t bytes, void* handle) {
    FIND(stream, handle);
    if (stream->capture) return fail(CAPTURE_UNSUPPORTED);
    if (const int error = allocate(made, bytes, stream->device)) return error;
    Chunk& chunk = chunks.at(static_cast<char*>(*made));
    chunk.asynchronous = true;
    used_by_pool[stream->device] += chunk.size;
    return submit(*stream, {"cudaMallocAsync", {{chunk.at, bytes, true}}, [](Stream&, Stamp) { return SUCCESS; }});
}

int cudaMallocFromPoolAsync(void** made, std::size_t bytes, void*, void* handle) { return cudaMallocAsync(made, bytes, handle); }

int cudaFreeAsync(void* pointer, void* handle) {
    FIND(stream, handle);
    if (stream->capture) return fail(CAPTURE_UNSUPPORTED);
    const auto found = chunks.find(static_cast<char*>(pointer));
    if (found == chunks.end() || !found->second.asynchronous) return fail(INVALID_VALUE);
    Chunk& chunk = found->second;
    used_by_pool[chunk.device] -= chunk.size;
    const std::size_t bytes = chunk.pieces.begin()->second.asked;
    return submit(*stream, {"cudaFreeAsync", {{chunk.at, bytes, true}}, [&chunk](Stream&, Stamp) { return give_back(chunk); }});
}

// Each device has one memory pool, its default one; its handle is the device's number plus one.
int cudaDeviceGetDefaultMemPool(void** pool, int device) {
    if (device < 0 || device >= DEVICES) return fail(INVALID_DEVICE);
    return *pool = reinterpret_cast<void*>(std::intptr_t(device) + 1), SUCCESS;
}

int cudaDeviceGetMemPool(void** pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
int cudaDeviceSetMemPool(int device, void* pool) {
    return reinterpret_cast<std::intptr_t>(pool) - 1 == device && 0 <= device && device < DEVICES ? SUCCESS : fail(INVALID_VALUE);
}

int cudaMemPoolTrimTo(void*, std::size_t) { return SUCCESS; }

static bool is_pool(void* pool) { return 1 <= reinterpret_cast<std::intptr_t>(pool) && reinterpret_cast<std::intptr_t>(pool) <= DEVICES; }

int cudaMemPoolSetAttribute(void* pool, int attribute, void* value) {
    Hold hold(gate);
    if (!is_pool(pool) || attribute < 1 || attribute > 8) return fail(INVALID_VALUE);
    if (attribute == 4) kept_by_pool[reinterpret_cast<std::intptr_t>(pool) - 1] = *static_cast<std::uint64_t*>(value);
    return SUCCESS;
}

// 1 to 3 say how memory is used again (int), 4 how much is kept, 5 to 8 the bytes reserved and used, now and at most (64 bits).
int cudaMemPoolGetAttribute(void* pool, int attribute, void* value) {
    Hold hold(gate);
    const auto device = reinterpret_cast<std::intptr_t>(pool) - 1;
    if (!is_pool(pool) || attribute < 1 || attribute > 8) return fail(INVALID_VALUE);
    if (attribute < 4)
        *static_cast<int*>(value) = 0;
    else
        *static_cast<std::uint64_t*>(value) = attribute == 4 ? kept_by_pool[device] : used_by_pool[device];
    return SUCCESS;
}

int cudaHostAlloc(void** made, std::size_t bytes, unsigned) {
    Hold hold(gate);
    return allocate(made, bytes, -1);
}

int cudaFree(void* pointer) {
    Hold hold(gate);
    if (const int error = pointer ? note_host_wait("cudaFree") : SUCCESS) return fail(error);
    return release(pointer);
}

int cudaFreeHost(void* pointer) {
    Hold hold(gate);
    return release(pointer);
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* handle) {
    FIND(stream, handle);
    return submit_copy(to, from, bytes, kind, *stream);
}

int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
    FIND(stream, nullptr);
    if (const int error = refuse_while_capturing()) return error;
    if (place_of(to) == Place::pinned && place_of(from) == Place::device)
        if (const int error = note_host_wait(text_of("cudaMemcpy of %zu bytes to page-locked memory", bytes))) return fail(error);
    if (const int error = submit_copy(to, from, bytes, kind, *stream)) return error;
    host_waits(stream->clock);
    return SUCCESS;
}

int cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, void* handle) {
    FIND(stream, handle);
    return submit_copy(to, from, bytes, 3, *stream);
}

int cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
    FIND(stream, nullptr);
    return submit_copy(to, from, bytes, 3, *stream);
}

int cudaMemsetAsync(void* pointer, int value, std::size_t bytes, void* handle) {
    FIND(stream, handle);
    return submit_fill(pointer, value, bytes, *stream);
}

int cudaMemset(void* pointer, int value, std::size_t bytes) {
    FIND(stream, nullptr);
    return submit_fill(pointer, value, bytes, *stream);
}

struct PointerAttributes {
    int type, device;
    void *on_device, *on_host;
};

int cudaPointerGetAttributes(PointerAttributes* out, const void* pointer) {
    Hold hold(gate);
    const Place place = place_of(pointer);
    const int device = device_of(pointer);
    void* const at = const_cast<void*>(pointer);
    *out = {place == Place::device ? 2 : place == Place::pinned ? 1 : 0, device < 0 ? (place == Place::pinned ? current_device() : -2) : device,
            place == Place::host ? nullptr : at, place == Place::device ? nullptr : at};
    return SUCCESS;
}

// ---- what the pool does with its chunks, as the loader tells it

void hostcuda_pool_malloc(char* at, std::size_t asked, std::size_t room, int capturing) {
    Hold hold(gate);
    Chunk* const chunk = chunk_of(at);
    if (!chunk || room == 0) return;
    if (!chunk->cut) {
        chunk->cut = true;
        chunk->pieces.clear();
    }
    Piece piece{at, asked, room, ++pieces_made, capturing != 0, {}};
    const bool owned_by_graph = take_from_freed(*chunk, piece);
    if (!owned_by_graph && !all_are(at, room, POISON)) {
        hazard(text_of("%zu bytes were written after they had been freed", room));
        std::memset(at, POISON, room);
    }
    if (!capturing) std::memset(at + asked, GUARD_BYTE, room - asked);
    chunk->pieces[at] = std::move(piece);
}

void hostcuda_pool_free(char* at) {
    Hold hold(gate);
    Chunk* const chunk = chunk_of(at);
    if (!chunk || !chunk->cut) return;
    const auto found = chunk->pieces.find(at);
    if (found == chunk->pieces.end()) return;
    Piece piece = std::move(found->second);
    chunk->pieces.erase(found);
    if (!guards_hold(piece)) wrote_outside(piece, "something");
    std::memset(at, POISON, piece.room);
    chunk->freed[at] = std::move(piece);
}

void* hostcuda_alloc(std::size_t bytes) {
    void* made = nullptr;
    return cudaMalloc(&made, bytes) ? nullptr : made;
}

void hostcuda_free(void* pointer) {
    Hold hold(gate);
    release(pointer);
}
}
