// A block's threads as fibres: one runs until it waits at a barrier, then the next.
#pragma once
#include <string>

#include "kernels.h"

namespace hostcuda {

// Runs one block of a kernel. Returns what its threads did wrong, or nothing.
std::string run_block(const hostcuda_kernel& kernel, void** parameters);

}  // namespace hostcuda
