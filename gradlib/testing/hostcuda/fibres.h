// A block's threads as fibres: one runs until it waits at a barrier, then the next.
#pragma once
#include <cstddef>
#include <string>

#include "kernels.h"

namespace hostcuda {

inline constexpr std::size_t STACK = 256 * 1024;  // of a fibre

const void* stack_of(const void* pointer);  // the beginning of the running fibre's stack, where the address lies in it; or null
bool runs();                                // whether a thread does: a source also tells what a launch of it touches
std::string who();                          // which thread of which block runs

// Runs one block of a kernel. Returns what its threads did wrong, or nothing.
std::string run_block(const hostcuda_kernel& kernel, void** parameters);

// ---- sanitize.cpp

// What else than allocated memory a launch may touch.
struct Launched {
    const void* shared;
    std::size_t shared_bytes, shared_room;
    const void* parameters;
    std::size_t parameter_bytes;
    const void* places;  // pointers to the parameters
    std::size_t place_bytes;
};

void sanitize(const Launched& launched);  // before a launch
void check_access(const void* from, std::size_t bytes, bool write);

}  // namespace hostcuda
