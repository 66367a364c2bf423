// What the libraries (cuBLAS, cuSOLVER, cuSPARSE, cuRAND, the replacements of Thrust and CUB) see of the driver.
//
// Order: work runs on the calling thread, at the moment it is enqueued, so results repeat. What would go unseen that way, a missing
// synchronisation, is found by clocks instead: every stream counts its work and knows how much of the other streams' work is over before
// its own next piece begins. Memory remembers who wrote and read it. Work that touches memory whose last user is not covered is a hazard:
// it is recorded (the test fails, `hostcuda.hazards()` lists it) and the call that enqueued it returns an error.
// While a stream captures, work is kept in the graph instead and runs at every launch of the graph.
//
// A library call is therefore: declare every range of device memory the work reads and writes, then enqueue the work.
//
//     hostcuda_reads(stream, a, bytes_of_a);
//     hostcuda_writes(stream, c, bytes_of_c);
//     if (int error = hostcuda_enqueue(stream, work, data, release, "cublasSgemm")) return CUBLAS_STATUS_EXECUTION_FAILED;
//
// `work(data)` runs once, at once (or at each launch of the graph that captured it); `release(data)` after its last run, also when enqueue
// returns an error; release may be null. Ranges belong to the next hostcuda_enqueue of the same thread on the same stream; a range of 0
// bytes is ignored. A range that lies in no allocation, in freed memory or on another device than the stream's is a hazard too.
// Work must not call back into the driver. A stream of null is the legacy default stream of the calling thread's current device.
#pragma once
#include <cstddef>

extern "C" {
typedef void (*hostcuda_work)(void* data);

void hostcuda_reads(void* stream, const void* pointer, std::size_t bytes);
void hostcuda_writes(void* stream, const void* pointer, std::size_t bytes);
// Returns 0, or the cudaError of a hazard or of a call that is illegal while the stream captures.
int hostcuda_enqueue(void* stream, hostcuda_work work, void* data, hostcuda_work release, const char* name);
// The host waits for a stream: for calls that give a result to the host (dot with the pointer mode of the host). Returns a cudaError.
int hostcuda_wait(void* stream);
// Device memory outside CuPy's pool, for a library's own workspace; on the current device, filled with poison. Null when there is none.
void* hostcuda_alloc(std::size_t bytes);
void hostcuda_free(void* pointer);
}
