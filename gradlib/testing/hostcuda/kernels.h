// What a compiled source (include/hostcuda_kernel.h) and the driver know of each other.
#pragma once
#include <cstddef>

extern "C" {

struct hostcuda_index {
    unsigned x, y, z;
};

// A parameter of a kernel: a value, a bare pointer, or CuPy's CArray, which holds a pointer, its size, its shape and its strides in bytes.
// Of the list of them the last is an end.
struct hostcuda_parameter {
    enum Kind { end, value, pointer, array } kind;
    unsigned bytes;
    bool reads_only;      // what it points to is const
    int axes;             // of an array
    unsigned item_bytes;  // an element of it
};

// One kernel of a source.
struct hostcuda_kernel {
    const char* name;
    void (*call)(void** parameters);  // one thread of it
    const hostcuda_parameter* parameters;
    const char* constant;  // a 1 for each parameter that the kernel only reads: those that the source declares const
    int max_threads;       // of a block
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
