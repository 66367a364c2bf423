// A block's threads as fibres. A fibre takes one thread after another until one waits at a barrier; then a further fibre goes on with the
// next thread. So a kernel without barriers runs as a plain loop, and no kernel has to say whether it has any. No two threads run at once:
// results repeat.
#include "fibres.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "driver.h"

#if !defined(__x86_64__)
#error "hostcuda switches fibres on x86-64 only"
#endif

// Saves the registers that a call keeps on the running stack, changes over to the other one and takes them from there.
extern "C" void hostcuda_switch(void** save, void* go);
asm(R"(
.text
.globl hostcuda_switch
.type hostcuda_switch, @function
hostcuda_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size hostcuda_switch, .-hostcuda_switch
)");

extern "C" {
hostcuda_index hostcuda_thread, hostcuda_block, hostcuda_block_size, hostcuda_grid_size;
unsigned char* hostcuda_dynamic_shared;
}

namespace hostcuda {
namespace {

constexpr unsigned MOST_THREADS = 1024, WARP = 32;

enum class Waits : unsigned char { no, for_block, for_warp, ended };

struct PendingCopy {
    void* to;
    const void* from;
    std::size_t bytes;
};

struct Thread {
    Waits waits;
    unsigned mask;  // the threads of its warp that a warp's barrier is for
    unsigned phase;  // counts its warp barriers
    int fibre;
};

struct Fibre {
    void* stack;
    void* place;  // its stack pointer while it does not run
};

std::vector<Fibre> fibres;
std::vector<int> idle;
Thread threads[MOST_THREADS];
std::vector<PendingCopy> copies[MOST_THREADS];
std::vector<unsigned> with_copies;
unsigned long long slots[MOST_THREADS / WARP][2][WARP];
unsigned count, next_thread, ended, now;
void* scheduler;
const hostcuda_kernel* running;
void** arguments;
std::string wrong;

hostcuda_index index_of(unsigned thread) {
    const unsigned x = hostcuda_block_size.x, y = hostcuda_block_size.y;
    return {thread % x, thread / x % y, thread / (x * y)};
}

// What a fibre does from its beginning on: threads, one after another, as long as there are any; then it lies idle and may begin again.
void live() {
    for (;;) {
        const int mine = idle.back();
        idle.pop_back();
        while (next_thread < count) {
            now = next_thread++;
            threads[now].fibre = mine;
            hostcuda_thread = index_of(now);
            running->call(arguments);
            threads[now].waits = Waits::ended;
            ++ended;
            if (!wrong.empty()) next_thread = count;
        }
        idle.push_back(mine);
        hostcuda_switch(&fibres[mine].place, scheduler);
    }
}

int a_fibre() {
    if (idle.empty()) {
        void* const stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) throw std::bad_alloc();
        auto* const top = reinterpret_cast<std::uintptr_t*>(static_cast<char*>(stack) + STACK);
        top[-2] = reinterpret_cast<std::uintptr_t>(&live);  // where it returns to first; 16 bytes aligned as behind a call
        fibres.push_back({stack, top - 8});
        idle.push_back(int(fibres.size()) - 1);
    }
    return idle.back();
}

// The running thread waits. Threads that have not begun go first, on a further fibre; then the scheduler decides.
void wait(Waits what, unsigned mask) {
    Thread& thread = threads[now];
    const unsigned self = now;
    thread.waits = what;
    thread.mask = mask;
    void** const save = &fibres[thread.fibre].place;
    if (next_thread < count) {
        const int other = a_fibre();  // may move the fibres
        hostcuda_switch(&fibres[threads[self].fibre].place, fibres[other].place);
    } else {
        hostcuda_switch(save, scheduler);
    }
    now = self;
    hostcuda_thread = index_of(self);
}

void resume(unsigned thread) {
    threads[thread].waits = Waits::no;
    hostcuda_switch(&scheduler, fibres[threads[thread].fibre].place);
}

bool warp_is_together(unsigned first, unsigned thread) {
    const unsigned mask = threads[thread].mask;
    for (unsigned lane = 0; lane < WARP && first + lane < count; ++lane)
        if ((mask >> lane & 1) && threads[first + lane].waits != Waits::for_warp && threads[first + lane].waits != Waits::ended) return false;
    return true;
}

// Lets the threads go on whose warp is together. Returns whether there were any.
bool resume_warps() {
    bool any = false;
    std::vector<unsigned> ready;
    for (unsigned first = 0; first < count; first += WARP) {
        ready.clear();
        for (unsigned thread = first; thread < first + WARP && thread < count; ++thread)
            if (threads[thread].waits == Waits::for_warp && warp_is_together(first, thread)) ready.push_back(thread);
        for (const unsigned thread : ready) resume(thread);
        any |= !ready.empty();
    }
    return any;
}

// The programming guide wants all threads of a block at a barrier. Since compute capability 7.0 those that have ended do not count, on which
// scans of CuPy's own rely; other kernels are held to the guide.
bool may_leave_early() { return std::strncmp(running->name, "cupy_", 5) == 0; }

void run_to_the_end() {
    while (ended < count && wrong.empty()) {
        if (resume_warps()) continue;
        unsigned at_barrier = 0;
        for (unsigned thread = 0; thread < count; ++thread) at_barrier += threads[thread].waits == Waits::for_block;
        if (at_barrier != count && !(may_leave_early() && at_barrier + ended == count)) {
            wrong = at_barrier ? "only some threads of a block reached a __syncthreads()" : "only some threads of a warp reached a warp's barrier";
            return;
        }
        for (unsigned thread = 0; thread < count; ++thread)
            if (threads[thread].waits == Waits::for_block) resume(thread);
    }
}

}  // namespace

const void* stack_of(const void* pointer) {
    const char* const stack = static_cast<const char*>(fibres[threads[now].fibre].stack);
    return stack <= pointer && pointer < stack + STACK ? stack : nullptr;
}

bool runs() { return running != nullptr; }

std::string who() {
    const auto [bx, by, bz] = hostcuda_block;
    const auto [x, y, z] = hostcuda_thread;
    return text_of("block %u, %u, %u, thread %u, %u, %u", bx, by, bz, x, y, z);
}

std::string run_block(const hostcuda_kernel& kernel, void** parameters) {
    count = hostcuda_block_size.x * hostcuda_block_size.y * hostcuda_block_size.z;
    next_thread = ended = 0;
    wrong.clear();
    running = &kernel;
    arguments = parameters;
    for (unsigned thread = 0; thread < count; ++thread) threads[thread] = {Waits::no, 0, 0, -1};
    a_fibre();
    hostcuda_switch(&scheduler, fibres[idle.back()].place);
    run_to_the_end();
    running = nullptr;
    for (const unsigned thread : with_copies) copies[thread].clear();
    with_copies.clear();
    if (!wrong.empty()) {  // fibres that stopped in the middle of a thread do not come back
        fibres.clear();
        idle.clear();
    }
    return wrong;
}

}  // namespace hostcuda

using namespace hostcuda;

extern "C" {

void hostcuda_block_barrier() { wait(Waits::for_block, 0); }

void hostcuda_warp_barrier(unsigned mask) {
    ++threads[now].phase;
    wait(Waits::for_warp, mask);
}

unsigned hostcuda_warp_threads() {
    const unsigned first = now / WARP * WARP;
    unsigned mask = 0;
    for (unsigned lane = 0; lane < WARP && first + lane < count; ++lane)
        if (threads[first + lane].waits != Waits::ended) mask |= 1u << lane;
    return mask;
}

unsigned long long* hostcuda_warp_slots() { return slots[now / WARP][threads[now].phase & 1]; }

void hostcuda_trap(const char* what) {
    wrong = what;
    hostcuda_switch(&fibres[threads[now].fibre].place, scheduler);
}

// Until it is awaited the target holds poison, as on a GPU it may hold anything.
void hostcuda_begin_copy(void* to, const void* from, std::size_t bytes) {
    check_access(from, bytes, false);
    check_access(to, bytes, true);
    if (copies[now].empty()) with_copies.push_back(now);
    std::memset(to, POISON, bytes);
    copies[now].push_back({to, from, bytes});
}

void hostcuda_await_copies() {
    for (const PendingCopy& copy : copies[now]) std::memcpy(copy.to, copy.from, copy.bytes);
    copies[now].clear();
}
}
