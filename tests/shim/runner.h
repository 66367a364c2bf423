// Reads one launch from a file, runs it, writes the arrays back. The types of the arguments in the file are checked against the
// kernel's own, as compiled.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>

#include "cuda_shim.h"

#include "common.cuh"  // after the shim, whose words it is written in

inline constexpr std::size_t SHARED_LIMIT = 48 * 1024;

[[noreturn]] inline void fail(const std::string& what) {
    std::fprintf(stderr, "shim: %s\n", what.c_str());
    std::exit(3);
}

template <typename T>
std::string type_name() {
    if constexpr (std::is_pointer_v<T>) return "*" + type_name<std::remove_cv_t<std::remove_pointer_t<T>>>();
    else if constexpr (std::is_same_v<T, float>) return "float";
    else if constexpr (std::is_same_v<T, double>) return "double";
    else if constexpr (std::is_same_v<T, int>) return "int";
    else if constexpr (std::is_same_v<T, long long>) return "long long";
    else if constexpr (std::is_same_v<T, half_t>) return "half_t";
    else if constexpr (std::is_same_v<T, bfloat16_t>) return "bfloat16_t";
    else static_assert(!sizeof(T), "a type the runner does not know");
}

struct Argument {
    std::string type;
    long long bytes;  // -1: a null pointer
    void* data;
};

struct Launch {
    std::string variant, kernel;
    Dim3 grid{1, 1, 1};
    Dim3 block{1, 1, 1};
    std::size_t shared = 0;
    std::vector<Argument> args;
};

template <typename T>
T argument(const Launch& launch, std::size_t i) {
    const Argument& a = launch.args[i];
    if (a.type != type_name<T>()) fail(launch.kernel + " argument " + std::to_string(i) + " is " + type_name<T>() + ", got " + a.type);
    if constexpr (std::is_pointer_v<T>) {
        return a.bytes < 0 ? nullptr : static_cast<T>(a.data);
    } else {
        if (a.bytes != (long long)sizeof(T)) fail("a number of the wrong size");
        T value;
        std::memcpy(&value, a.data, sizeof(T));
        return value;
    }
}

template <typename... A, std::size_t... I>
void run_blocks(void (*kernel)(A...), const Launch& launch, unsigned char* shared, std::index_sequence<I...>) {
    const std::tuple<A...> args{argument<A>(launch, I)...};
    blockDim = launch.block;
    gridDim = launch.grid;
    const unsigned int number = blockDim.x * blockDim.y * blockDim.z;
    std::barrier<> barrier(number);
    block_barrier = &barrier;
    std::vector<std::thread> threads;
    for (unsigned int t = 0; t < number; ++t)
        threads.emplace_back([&, t] {
            threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
            for (unsigned int b = 0; b < gridDim.x * gridDim.y * gridDim.z; ++b) {
                blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / gridDim.x / gridDim.y};
                if (t == 0) std::memset(shared, 0xff, launch.shared);  // what a block finds in shared memory is not zero
                barrier.arrive_and_wait();
                std::apply(kernel, args);
                barrier.arrive_and_wait();
            }
        });
    for (std::thread& thread : threads) thread.join();
}

using Runner = std::function<void(const Launch&)>;
inline std::map<std::string, Runner> runners;

template <typename... A>
bool add(const char* variant, const char* name, void (*kernel)(A...), unsigned char* shared) {
    runners[std::string(variant) + "/" + name] = [=](const Launch& launch) {
        if (launch.args.size() != sizeof...(A)) fail(launch.kernel + " takes " + std::to_string(sizeof...(A)) + " arguments");
        if (launch.shared > SHARED_LIMIT) fail("more shared memory than every GPU gives");
        run_blocks(kernel, launch, shared, std::index_sequence_for<A...>{});
    };
    return true;
}

inline std::string read_text(std::FILE* file) {
    std::string text;
    for (int c; (c = std::fgetc(file)) > 0;) text.push_back((char)c);
    return text;
}

inline long long read_number(std::FILE* file) {
    long long value;
    if (std::fread(&value, sizeof value, 1, file) != 1) fail("the launch file ends early");
    return value;
}

inline int run_file(const char* in, const char* out) {
    std::FILE* file = std::fopen(in, "rb");
    if (!file) fail("no launch file");
    Launch launch;
    launch.variant = read_text(file);
    launch.kernel = read_text(file);
    for (Dim3* size : {&launch.grid, &launch.block})
        for (unsigned int* n : {&size->x, &size->y, &size->z}) *n = (unsigned int)read_number(file);
    launch.shared = (std::size_t)read_number(file);
    for (long long n = read_number(file); n > 0; --n) {
        Argument a;
        a.type = read_text(file);
        a.bytes = read_number(file);
        a.data = a.bytes < 0 ? nullptr : std::malloc(a.bytes ? a.bytes : 1);
        if (a.bytes > 0 && std::fread(a.data, 1, a.bytes, file) != (std::size_t)a.bytes) fail("the launch file ends early");
        launch.args.push_back(a);
    }
    std::fclose(file);
    const auto found = runners.find(launch.variant + "/" + launch.kernel);
    if (found == runners.end()) fail("no kernel " + launch.variant + "/" + launch.kernel);
    found->second(launch);
    file = std::fopen(out, "wb");
    if (!file) fail("cannot write the results");
    for (const Argument& a : launch.args) {
        if (a.bytes > 0 && a.type[0] == '*') std::fwrite(a.data, 1, a.bytes, file);
        std::free(a.data);
    }
    std::fclose(file);
    return 0;
}
