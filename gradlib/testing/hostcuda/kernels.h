// What a compiled source (include/hostcuda_kernel.h) and the driver know of each other.
#pragma once
#include <cstddef>

extern "C" {

struct hostcuda_index {
    unsigned x, y, z;
};

// A range of memory that a launch touches; bytes 0: from a bare pointer on, as far as its allocation goes.
struct hostcuda_range {
    const void* from;
    std::size_t bytes;
    bool write;
    bool shared;  // it has elements that are one place in memory, as after broadcast_to
};

// One kernel of a source.
struct hostcuda_kernel {
    const char* name;
    void (*call)(void** parameters);                                  // one thread of it
    int (*ranges)(void** parameters, hostcuda_range* ranges);         // what a launch with these parameters touches; returns how many
    const unsigned* sizes;                                            // bytes of each parameter, then 0
    int max_threads;                                                  // of a block
};

// One source: its kernels, the last of which has no name, and where its variables declared __shared__ lie.
struct hostcuda_module_info {
    const hostcuda_kernel* kernels;
    unsigned char *shared_begin, *shared_end;
};

// The thread that is running.
extern hostcuda_index hostcuda_thread, hostcuda_block, hostcuda_block_size, hostcuda_grid_size;
extern unsigned char* hostcuda_dynamic_shared;  // of the block that is running

void hostcuda_block_barrier();
void hostcuda_warp_barrier(unsigned mask);
unsigned hostcuda_warp_threads();                      // the threads of this warp that have not ended
unsigned long long* hostcuda_warp_slots();             // 32 places for values that its threads exchange; other ones after each barrier
void hostcuda_trap(const char* what);                  // ends the launch with an error
void hostcuda_begin_copy(void* to, const void* from, std::size_t bytes);  // to shared memory, as cp.async does
void hostcuda_await_copies();
double hostcuda_bessel_i(double order, double x);      // here, since the header that declares it is slow to compile
}
