// A source as a library of the calling process: its kernels run on fibres, one for each thread of a block, which change over at
// __syncthreads(). No two run at once, so results repeat; a barrier that only some threads of a block reach is an error here.
// Without sanitizers, but quick: the programs of runner.h, with real threads, are the ones that look for races and bad accesses.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define SHIM_FIBRES
#include "cuda_shim.h"

inline constexpr std::size_t SHARED_LIMIT = 48 * 1024, STACK = 64 * 1024;
inline constexpr unsigned char POISON = 0xff;

template <typename T>
T atomicAdd(T* at, T value) {
    const T old = *at;
    *at = old + value;
    return old;
}

// Kind and size of a parameter: "f4" float, "i8" a 64-bit integer, "b2" two bytes of a class; "*f4" a pointer to float, "*v" to void.
template <typename T>
std::string type_code() {
    if constexpr (std::is_pointer_v<T>) return "*" + type_code<std::remove_cv_t<std::remove_pointer_t<T>>>();
    else if constexpr (std::is_void_v<T>) return "v";
    else return (std::is_floating_point_v<T> ? "f" : std::is_integral_v<T> ? (std::is_signed_v<T> ? "i" : "u") : "b") + std::to_string(sizeof(T));
}

template <typename... A>
std::string describe(void (*)(A...)) {
    std::string text;
    ((text += type_code<A>() + ";"), ...);
    return text;
}

struct Fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[STACK]};
    bool finished = false;
};

inline std::vector<std::unique_ptr<Fibre>> fibres;
inline ucontext_t scheduler;
inline Fibre* running;
inline std::function<void()> body;

inline void fibre_barrier() { swapcontext(&running->context, &scheduler); }

inline void fibre_main() {
    body();
    running->finished = true;
}

// Runs the threads of one block from barrier to barrier. Returns whether all reached each one together.
inline bool run_block(unsigned int threads, Dim3 block) {
    while (fibres.size() < threads) fibres.push_back(std::make_unique<Fibre>());
    for (unsigned int t = 0; t < threads; ++t) {
        Fibre& fibre = *fibres[t];
        fibre.finished = false;
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.get();
        fibre.context.uc_stack.ss_size = STACK;
        fibre.context.uc_link = &scheduler;
        makecontext(&fibre.context, fibre_main, 0);
    }
    for (unsigned int finished = 0; finished == 0;) {
        for (unsigned int t = 0; t < threads; ++t) {
            threadIdx = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
            running = fibres[t].get();
            swapcontext(&scheduler, &running->context);
            finished += running->finished;
        }
        if (finished != 0 && finished != threads) return false;
    }
    return true;
}

template <typename... A, std::size_t... I>
const char* launch(void (*kernel)(A...), Dim3 grid, Dim3 block, std::size_t shared, unsigned char* bytes, void** given, std::index_sequence<I...>) {
    const std::tuple<A...> args{*static_cast<A*>(given[I])...};
    const unsigned int threads = block.x * block.y * block.z;
    gridDim = grid;
    blockDim = block;
    body = [&] { std::apply(kernel, args); };
    for (unsigned int z = 0; z < grid.z; ++z)
        for (unsigned int y = 0; y < grid.y; ++y)
            for (unsigned int x = 0; x < grid.x; ++x) {
                blockIdx = {x, y, z};
                if (bytes) std::memset(bytes, POISON, SHARED_LIMIT);
                if (!run_block(threads, block)) return "only some threads of a block reached a __syncthreads()";
                for (std::size_t i = shared; bytes && i < SHARED_LIMIT; ++i)
                    if (bytes[i] != POISON) return "the kernel wrote beyond the shared memory it was given";
            }
    return nullptr;
}

#define EXPORT(NAME, SHARED)                                                                                                \
    extern "C" const char* describe_##NAME() {                                                                              \
        static const std::string text = describe(NAME);                                                                     \
        return text.c_str();                                                                                                \
    }                                                                                                                       \
    template <typename... A>                                                                                                \
    const char* spread_##NAME(void (*kernel)(A...), Dim3 grid, Dim3 block, std::size_t shared, void** args) {               \
        return launch(kernel, grid, block, shared, SHARED, args, std::index_sequence_for<A...>{});                          \
    }                                                                                                                       \
    extern "C" const char* launch_##NAME(const unsigned int* n, std::size_t shared, void** args) {                          \
        return spread_##NAME(NAME, {n[0], n[1], n[2]}, {n[3], n[4], n[5]}, shared, args);                                   \
    }
