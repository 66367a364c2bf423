// Modules, functions and launches. A module's "image" names a shared object that compiler.py made of a CUDA source.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "driver.h"
#include "fibres.h"
#include "kernels.h"

extern "C" int hostcuda_peer(int device, int peer);

namespace hostcuda {
namespace {

constexpr char IMAGE[] = "hostcuda:";
constexpr unsigned SHARED = 48 * 1024, SHARED_WHEN_ASKED = 227 * 1024, SHARED_GUARD = 1024;
constexpr unsigned GRID_LIMITS[] = {2147483647, 65535, 65535}, BLOCK_LIMITS[] = {1024, 1024, 64};

struct Module;

struct Function {
    const hostcuda_kernel* kernel;
    Module* module;
    int dynamic_limit = SHARED;
};

struct Module {
    void* library;
    hostcuda_module_info info;
    std::map<std::string, Function> functions;
    std::size_t shared() const { return info.shared_end - info.shared_begin; }
};

std::set<void*> modules;
std::set<void*> functions;
alignas(1024) unsigned char dynamic_shared[SHARED_WHEN_ASKED + SHARED_GUARD];
std::uint64_t launches = 0;

struct Shape {
    unsigned grid[3], block[3], shared;
    unsigned threads() const { return block[0] * block[1] * block[2]; }
};

bool within_limits(const Shape& shape, const Function& function) {
    for (int axis = 0; axis < 3; ++axis)
        if (shape.grid[axis] - 1 >= GRID_LIMITS[axis] || shape.block[axis] - 1 >= BLOCK_LIMITS[axis]) return false;
    const auto all_threads = std::uint64_t(shape.block[0]) * shape.block[1] * shape.block[2];
    return all_threads <= std::uint64_t(function.kernel->max_threads) && shape.shared <= unsigned(function.dynamic_limit) &&
           shape.shared + function.module->shared() <= std::size_t(std::max(int(SHARED), function.dynamic_limit));
}

// An order of the blocks that is another one at each launch, and the same in each run of the program.
struct Order {
    std::uint64_t count, step, place;
    Order(std::uint64_t blocks, std::uint64_t seed) : count(blocks), step(1), place(0) {
        if (blocks < 2) return;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        place = (seed >> 33) % blocks;
        step = 1 + (seed >> 13) % (blocks - 1);
        while (std::gcd(step, blocks) != 1) ++step;
    }
    std::uint64_t next() { return place = (place + step) % count; }
};

// Copies of a launch's parameters: a graph runs it again when the caller's are gone.
struct Parameters {
    std::vector<char> bytes;
    std::vector<void*> places;
    Parameters(const hostcuda_kernel& kernel, void** given) {
        const auto room = [](const hostcuda_parameter& one) { return std::size_t(one.bytes + 15) / 16 * 16; };
        std::size_t size = 0;
        for (auto* one = kernel.parameters; one->kind != hostcuda_parameter::end; ++one) size += room(*one);
        bytes.resize(size + 16);
        char* at = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(bytes.data()) + 15) / 16 * 16);
        for (auto* one = kernel.parameters; one->kind != hostcuda_parameter::end; ++one) {
            std::memcpy(at, *given++, one->bytes);
            places.push_back(at);
            at += room(*one);
        }
    }
};

int run_launch(const Function& function, const Shape& shape, Parameters& given) {
    void** const parameters = given.places.data();
    sanitize({dynamic_shared, shape.shared, sizeof dynamic_shared, given.bytes.data(), given.bytes.size(), parameters,
              given.places.size() * sizeof(void*)});
    hostcuda_grid_size = {shape.grid[0], shape.grid[1], shape.grid[2]};
    hostcuda_block_size = {shape.block[0], shape.block[1], shape.block[2]};
    hostcuda_dynamic_shared = dynamic_shared;
    const std::uint64_t x = shape.grid[0], y = shape.grid[1];
    Order order(x * y * shape.grid[2], ++launches);
    for (std::uint64_t left = order.count; left--;) {
        const std::uint64_t block = order.next();
        hostcuda_block = {unsigned(block % x), unsigned(block / x % y), unsigned(block / (x * y))};
        if (function.module->shared()) std::memset(function.module->info.shared_begin, POISON, function.module->shared());
        if (shape.shared) std::memset(dynamic_shared, POISON, shape.shared + SHARED_GUARD);
        std::string wrong = run_block(*function.kernel, parameters);
        if (wrong.empty() && shape.shared)
            for (unsigned i = 0; i < SHARED_GUARD; ++i)
                if (dynamic_shared[shape.shared + i] != POISON) wrong = "the kernel wrote beyond the shared memory it was given";
        if (!wrong.empty()) return hazard(std::string(function.kernel->name) + ": " + wrong);
    }
    return SUCCESS;
}

// CuPy's kernels that write where an array of indices or a mask says do not see whether they write what they are still to read; its other
// kernels copy before.
int check_scatter(const hostcuda_kernel& kernel, const std::vector<Range>& ranges) {
    if (std::strncmp(kernel.name, "cupy_scatter_", 13) != 0 || ranges.empty()) return SUCCESS;
    const Range& target = ranges.back();
    for (const Range& other : ranges)
        if (&other != &target && other.from < target.from + target.bytes && target.from < other.from + other.bytes)
            return hazard(text_of("%s reads memory that it writes at places chosen by an array", kernel.name));
    return SUCCESS;
}

struct Touched {
    const char* from;
    std::size_t bytes;  // 0: from a bare pointer on, as far as its allocation goes
    bool shared;        // it has elements that are one place in memory, as after broadcast_to
};

// The part of memory between an array's first and last element; none for an empty one.
Touched touched_of(const hostcuda_parameter& parameter, const void* value) {
    const char* const data = *static_cast<const char* const*>(value);
    if (parameter.kind == hostcuda_parameter::pointer) return {data, 0, false};
    const auto* const size = static_cast<const std::ptrdiff_t*>(value) + 1;
    const auto* const shape = size + 1;
    const auto* const strides = shape + parameter.axes;
    if (*size == 0) return {nullptr, 0, false};
    const char *first = data, *last = data;
    bool shared = false;
    for (int axis = 0; axis < parameter.axes; ++axis) {
        const std::ptrdiff_t reach = (shape[axis] - 1) * strides[axis];
        (reach < 0 ? first : last) += reach;
        shared |= shape[axis] > 1 && strides[axis] == 0;
    }
    return {first, std::size_t(last - first) + parameter.item_bytes, shared};
}

// What a launch touches; HAZARD for memory of another device that this one cannot reach.
int ranges_of(const hostcuda_kernel& kernel, void** parameters, int device, std::vector<Range>& ranges) {
    for (int i = 0; kernel.parameters[i].kind != hostcuda_parameter::end; ++i) {
        const hostcuda_parameter& parameter = kernel.parameters[i];
        if (parameter.kind == hostcuda_parameter::value) continue;
        const Touched touched = touched_of(parameter, parameters[i]);
        const bool write = !parameter.reads_only && kernel.constant[i] != '1';
        char* const at = const_cast<char*>(touched.from);
        if (!at) continue;
        const int owner = device_of(at);
        if (owner >= 0 && owner != device && !hostcuda_peer(device, owner))
            return hazard(text_of("%s runs on device %d, argument %d lies on device %d", kernel.name, device, i, owner));
        if (write && touched.shared)
            return hazard(text_of("%s writes an array (argument %d) that has elements which share their memory", kernel.name, i));
        ranges.push_back({at, touched.bytes, write});
    }
    return check_scatter(kernel, ranges);
}

int launch(void* handle, const Shape& shape, void* stream_handle, void** given) {
    if (work_skipped) return SUCCESS;
    Hold hold(gate);
    if (!functions.count(handle)) return fail(INVALID_HANDLE);
    const Function& function = *static_cast<Function*>(handle);
    Stream* const stream = find_stream(stream_handle);
    if (!stream || stream->device != current_device()) return fail(INVALID_HANDLE);
    if (!within_limits(shape, function)) return fail(INVALID_VALUE);
    const auto parameters = std::make_shared<Parameters>(*function.kernel, given);
    Work work{function.kernel->name, {}, {}};
    if (const int error = ranges_of(*function.kernel, parameters->places.data(), stream->device, work.ranges)) return fail(error);
    const auto ranges = work.ranges;
    work.run = [&function, shape, parameters, ranges](Stream&, Stamp) {
        if (const int error = run_launch(function, shape, *parameters)) return error;
        return check_guards({function.kernel->name, ranges, {}});
    };
    return submit(*stream, std::move(work));
}

}  // namespace
}  // namespace hostcuda

using namespace hostcuda;

extern "C" {

double hostcuda_bessel_i(double order, double x) { return std::cyl_bessel_i(order, x); }

int cuModuleLoadData(void** handle, const char* image) {
    Hold hold(gate);
    if (std::strncmp(image, IMAGE, sizeof IMAGE - 1) != 0) return fail(INVALID_IMAGE);
    void* const library = dlopen(image + sizeof IMAGE - 1, RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail(hazard(text_of("a compiled kernel does not load: %s", dlerror())));
    auto* const module = new Module;
    module->library = library;
    module->info = *static_cast<hostcuda_module_info*>(dlsym(library, "hostcuda_module"));
    modules.insert(module);
    *handle = module;
    return SUCCESS;
}

int cuModuleUnload(void* handle) {
    Hold hold(gate);
    if (!modules.erase(handle)) return fail(INVALID_HANDLE);
    auto* const module = static_cast<Module*>(handle);
    for (auto& [name, function] : module->functions) functions.erase(&function);
    delete module;  // the library stays: a graph may hold one of its kernels
    return SUCCESS;
}

int cuModuleGetFunction(void** handle, void* module_handle, const char* name) {
    Hold hold(gate);
    if (!modules.count(module_handle)) return fail(INVALID_HANDLE);
    auto* const module = static_cast<Module*>(module_handle);
    for (const hostcuda_kernel* kernel = module->info.kernels; kernel->name; ++kernel)
        if (std::strcmp(kernel->name, name) == 0) {
            auto [entry, fresh] = module->functions.try_emplace(name, Function{kernel, module});
            functions.insert(&entry->second);
            *handle = &entry->second;
            return SUCCESS;
        }
    return fail(NOT_FOUND);
}

int cuModuleGetGlobal_v2(void** pointer, std::size_t* size, void* module_handle, const char* name) {
    Hold hold(gate);
    if (!modules.count(module_handle)) return fail(INVALID_HANDLE);
    *pointer = dlsym(static_cast<Module*>(module_handle)->library, name);
    Dl_info image;
    void* symbol = nullptr;
    if (!*pointer || !dladdr1(*pointer, &image, &symbol, RTLD_DL_SYMENT) || !symbol) return fail(NOT_FOUND);
    const std::size_t bytes = static_cast<const ElfW(Sym)*>(symbol)->st_size;
    if (size) *size = bytes;
    return know_variable(*pointer, bytes, current_device());
}

int cuModuleGetGlobal(void** pointer, std::size_t* size, void* module, const char* name) {
    return cuModuleGetGlobal_v2(pointer, size, module, name);
}

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream,
                   void** parameters, void**) {
    return launch(function, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, parameters);
}

int cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              void* stream, void** parameters) {
    return launch(function, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, parameters);
}

// 0 threads of a block, 1 static shared memory, 2 constant memory, 3 local memory, 4 registers, 5 PTX and 6 binary version,
// 8 dynamic shared memory
int cuFuncGetAttribute(int* value, int number, void* handle) {
    Hold hold(gate);
    if (!functions.count(handle)) return fail(INVALID_HANDLE);
    const auto& function = *static_cast<Function*>(handle);
    switch (number) {
        case 0: *value = function.kernel->max_threads; break;
        case 1: *value = int(function.module->shared()); break;
        case 4: *value = 32; break;
        case 5:
        case 6: *value = 90; break;
        case 8: *value = function.dynamic_limit; break;
        default: *value = 0;
    }
    return number < 0 || number > 15 ? fail(INVALID_VALUE) : SUCCESS;
}

int cuFuncSetAttribute(void* handle, int number, int value) {
    Hold hold(gate);
    if (!functions.count(handle)) return fail(INVALID_HANDLE);
    auto& function = *static_cast<Function*>(handle);
    if (number == 8) {
        if (value < 0 || value + int(function.module->shared()) > int(SHARED_WHEN_ASKED)) return fail(INVALID_VALUE);
        function.dynamic_limit = value;
    }
    return number == 8 || number == 9 ? SUCCESS : fail(INVALID_VALUE);
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, std::size_t shared) {
    Hold hold(gate);
    if (!functions.count(handle) || threads < 1) return fail(INVALID_VALUE);
    const auto& function = *static_cast<Function*>(handle);
    const std::size_t warps = (threads + 31) / 32, used = shared + function.module->shared() + 1024;  // 1 KB of each block is CUDA's
    *blocks = threads > function.kernel->max_threads ? 0 : int(std::min({std::size_t(32), 64 / warps, 233472 / used}));
    return SUCCESS;
}

int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void* handle, std::size_t (*)(int), std::size_t shared, int limit) {
    Hold hold(gate);
    if (!functions.count(handle)) return fail(INVALID_VALUE);
    int best = 0;
    for (int threads = 32; threads <= 1024 && (limit <= 0 || threads <= limit); threads += 32) {
        int blocks = 0;
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, handle, threads, shared);
        if (blocks * threads >= best) best = blocks * threads, *block = threads, *grid = blocks * 132;
    }
    return best ? SUCCESS : fail(INVALID_VALUE);
}
}
