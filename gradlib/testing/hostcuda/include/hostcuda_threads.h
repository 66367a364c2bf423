// Barriers, what the threads of a warp exchange, and atomic operations. One thread runs at a time (fibres.cpp), so an atomic operation is
// a plain one, and an order in memory needs no fence.
#pragma once

inline void __syncthreads() { hostcuda_block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { hostcuda_warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline unsigned __activemask() { return hostcuda_warp_threads(); }
inline void __trap() { hostcuda_trap("__trap()"); }
inline void __nanosleep(unsigned) {}
inline long long clock64() {
    static long long ticks;
    return ++ticks;
}
#define clock() int(clock64())

inline unsigned hostcuda_lane() {
    return (hostcuda_thread.x + hostcuda_block_size.x * (hostcuda_thread.y + hostcuda_block_size.y * hostcuda_thread.z)) % 32;
}

// Gives a value to all of the warp and returns what the thread of that lane gave; its own where there is no such thread.
template <typename T>
inline T hostcuda_exchange(unsigned mask, T value, unsigned lane) {
    static_assert(sizeof(T) <= 8, "a warp exchanges values of at most 8 bytes");
    unsigned long long* const slots = hostcuda_warp_slots();
    std::memcpy(&slots[hostcuda_lane()], &value, sizeof value);
    const bool there = lane < 32 && (hostcuda_warp_threads() >> lane & 1) && (mask >> lane & 1);
    hostcuda_warp_barrier(mask);
    if (there) std::memcpy(&value, &slots[lane], sizeof value);
    return value;
}

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return hostcuda_exchange(mask, value, (hostcuda_lane() & ~(width - 1)) + (lane & (width - 1)));
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = hostcuda_lane(), first = lane & ~(width - 1);
    return hostcuda_exchange(mask, value, lane >= first + delta ? lane - delta : lane);
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = hostcuda_lane(), last = (lane & ~(width - 1)) + width - 1;
    return hostcuda_exchange(mask, value, lane + delta <= last ? lane + delta : lane);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const unsigned lane = hostcuda_lane(), other = lane ^ unsigned(bits);
    return hostcuda_exchange(mask, value, other / width <= lane / width ? other : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned long long* const slots = hostcuda_warp_slots();
    slots[hostcuda_lane()] = predicate != 0;
    const unsigned there = hostcuda_warp_threads() & mask;
    hostcuda_warp_barrier(mask);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (there >> lane & 1) votes |= unsigned(slots[lane]) << lane;
    return votes;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

inline int __syncthreads_count(int predicate) {
    static int count;
    hostcuda_block_barrier();
    count = 0;
    hostcuda_block_barrier();
    count += predicate != 0;
    hostcuda_block_barrier();
    return count;
}
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

// The operations that CUDA declares for these types; CuPy adds others in the same way.
#define HOSTCUDA_ATOMIC(name, T, result)  \
    inline T name(T* at, T value) {       \
        const T old = *at;                \
        *at = (T)(result);                \
        return old;                       \
    }                                     \
    inline T name##_block(T* at, T value) { return name(at, value); } \
    inline T name##_system(T* at, T value) { return name(at, value); }
#define HOSTCUDA_ATOMICS(T)                                           \
    HOSTCUDA_ATOMIC(atomicAdd, T, old + value)                        \
    HOSTCUDA_ATOMIC(atomicExch, T, value)                             \
    HOSTCUDA_ATOMIC(atomicMin, T, value < old ? value : old)          \
    HOSTCUDA_ATOMIC(atomicMax, T, old < value ? value : old)          \
    HOSTCUDA_ATOMIC(atomicAnd, T, old & value)                        \
    HOSTCUDA_ATOMIC(atomicOr, T, old | value)                         \
    HOSTCUDA_ATOMIC(atomicXor, T, old ^ value)                        \
    inline T atomicCAS(T* at, T compared, T value) {                  \
        const T old = *at;                                            \
        if (old == compared) *at = value;                             \
        return old;                                                   \
    }
HOSTCUDA_ATOMICS(int)
HOSTCUDA_ATOMICS(unsigned)
HOSTCUDA_ATOMICS(unsigned long long)
#undef HOSTCUDA_ATOMICS
HOSTCUDA_ATOMIC(atomicAdd, float, old + value)
HOSTCUDA_ATOMIC(atomicAdd, double, old + value)
HOSTCUDA_ATOMIC(atomicExch, float, value)
HOSTCUDA_ATOMIC(atomicSub, int, old - value)
HOSTCUDA_ATOMIC(atomicSub, unsigned, old - value)
HOSTCUDA_ATOMIC(atomicMin, long long, value < old ? value : old)
HOSTCUDA_ATOMIC(atomicMax, long long, old < value ? value : old)
HOSTCUDA_ATOMIC(atomicAnd, long long, old & value)
HOSTCUDA_ATOMIC(atomicOr, long long, old | value)
HOSTCUDA_ATOMIC(atomicXor, long long, old ^ value)
HOSTCUDA_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
HOSTCUDA_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef HOSTCUDA_ATOMIC
inline unsigned short atomicCAS(unsigned short* at, unsigned short compared, unsigned short value) {
    const unsigned short old = *at;
    if (old == compared) *at = value;
    return old;
}

// Copies to shared memory that run beside their thread (cp.async): what a source without __CUDACC__ calls instead of PTX.
inline void host_begin_copy(void* to, const void* from, std::size_t bytes) { hostcuda_begin_copy(to, from, bytes); }
inline void host_await_copies() { hostcuda_await_copies(); }
