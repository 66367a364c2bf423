// Devices and what is asked of them, errors and their texts, hazards. The numbers are those of an H100 SXM.
#include <cstdarg>
#include <cstdio>
#include <deque>
#include <set>

#include "driver.h"

namespace hostcuda {

bool work_skipped = false;

std::recursive_mutex gate;

namespace {

thread_local int device_now = 0;
thread_local int last_error = SUCCESS;
thread_local std::string last_hazard = "a hazard";
std::deque<std::string> hazards;
std::map<std::string, long> host_waits_by_name, copies_to_device_by_name;
bool waits_refused = false;
bool faults_late = false;
int fault = SUCCESS;  // that is yet to show, and then shows at every wait
bool peers_possible = false;
int cuda_version = 12090;
std::set<std::pair<int, int>> peers_enabled;

struct Text {
    int code;
    const char *runtime, *driver, *text;
};

const Text TEXTS[] = {
    {SUCCESS, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {NO_PEER_ACCESS, "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {INVALID_SOURCE, "cudaErrorInvalidSource", "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"},
    {INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_STATE, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {PEER_ENABLED, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {PEER_NOT_ENABLED, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {LAUNCH_FAILED, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CAPTURE_MERGE, "cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CAPTURED_EVENT, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {HAZARD, "hostcudaErrorHazard", "HOSTCUDA_ERROR_HAZARD", nullptr},
};

const Text& text_for(int code) {
    static const Text unknown{999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"};
    for (const Text& text : TEXTS)
        if (text.code == code) return text;
    return unknown;
}

const char* message(int code) {
    const char* text = text_for(code).text;
    return text ? text : last_hazard.c_str();
}

// What cudaDeviceGetAttribute answers, by its number; what is not here is 0.
const std::map<int, int> ATTRIBUTES = {
    {1, 1024},     {2, 1024},        {3, 1024},    {4, 64},        {5, 2147483647}, {6, 65535},    {7, 65535},  {8, 49152},
    {9, 65536},    {10, 32},         {11, 2147483647}, {12, 65536}, {13, 1980000},  {14, 512},     {15, 1},     {16, 132},
    {19, 1},       {21, 131072},     {22, 131072}, {23, 65536},    {24, 16384},     {25, 16384},   {26, 16384}, {30, 512},
    {31, 1},       {32, 1},          {33, 1},      {36, 2619000},  {37, 5120},      {38, 52428800}, {39, 2048}, {40, 3},
    {41, 1},       {51, 32},         {75, 9},      {76, 0},        {78, 1},         {79, 1},       {80, 1},     {81, 233472},
    {82, 65536},   {83, 1},          {86, 0},      {87, 2},        {89, 1},         {90, 1},       {91, 1},     {95, 1},
    {97, 232448},  {106, 32},        {108, 32505856}, {109, 134213632}, {111, 1024}, {115, 1},
};
constexpr int LAST_ATTRIBUTE = 150;

int attribute(int number) {
    const auto found = ATTRIBUTES.find(number);
    return found == ATTRIBUTES.end() ? 0 : found->second;
}

// cudaDeviceProp as CUDA 12 lays it out; what CuPy reads has its name.
struct Properties12 {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    std::size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    std::size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    std::size_t totalConstMem;
    int major, minor;
    std::size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int textures[26], surfaces[14];
    std::size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing, memoryClockRate,
        memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,
        globalL1CacheSupported, localL1CacheSupported;
    std::size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported,
        canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
    std::size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    std::size_t reservedSharedMemPerBlock;
    int further[76];
};
static_assert(offsetof(Properties12, totalGlobalMem) == 288 && offsetof(Properties12, major) == 360 && sizeof(Properties12) == 1032);

// And as CUDA 13 does, which left some fields out.
struct Properties13 {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    std::size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    std::size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    std::size_t totalConstMem;
    int major, minor;
    std::size_t textureAlignment, texturePitchAlignment;
    int multiProcessorCount, integrated, canMapHostMemory;
    int textures[25], surfaces[14];
    std::size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing, memoryBusWidth,
        l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported,
        localL1CacheSupported;
    std::size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported, pageableMemoryAccess,
        concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
    std::size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    std::size_t reservedSharedMemPerBlock;
    int further[76];
};
static_assert(offsetof(Properties13, major) == 360 && offsetof(Properties13, surfaceAlignment) == 552 && sizeof(Properties13) == 1008);

constexpr std::size_t MEMORY = std::size_t(16) << 30;

bool is_device(int device) { return 0 <= device && device < DEVICES; }

template <typename Properties>
int give_properties(void* target, int device) {
    if (!is_device(device)) return fail(INVALID_DEVICE);
    Properties& p = *static_cast<Properties*>(target) = {};
    std::snprintf(p.name, sizeof p.name, "hostcuda %d (H100's limits, on the CPU)", device);
    p.uuid[0] = char(device + 1);
    p.totalGlobalMem = MEMORY;
    p.sharedMemPerBlock = attribute(8), p.regsPerBlock = attribute(12), p.warpSize = attribute(10), p.memPitch = attribute(11);
    p.maxThreadsPerBlock = attribute(1);
    for (int axis = 0; axis < 3; ++axis) p.maxThreadsDim[axis] = attribute(2 + axis), p.maxGridSize[axis] = attribute(5 + axis);
    p.totalConstMem = attribute(9), p.major = attribute(75), p.minor = attribute(76);
    p.textureAlignment = attribute(14), p.texturePitchAlignment = attribute(51);
    p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
    p.multiProcessorCount = attribute(16), p.surfaceAlignment = attribute(30), p.pciBusID = device + 1, p.asyncEngineCount = attribute(40);
    p.memoryBusWidth = attribute(37), p.l2CacheSize = attribute(38);
    p.persistingL2CacheMaxSize = attribute(108), p.maxThreadsPerMultiProcessor = attribute(39);
    p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
    p.sharedMemPerMultiprocessor = attribute(81), p.regsPerMultiprocessor = attribute(82), p.managedMemory = attribute(83);
    p.concurrentManagedAccess = p.computePreemptionSupported = 1;
    p.canUseHostPointerForRegisteredMem = p.cooperativeLaunch = 1;
    p.sharedMemPerBlockOptin = attribute(97), p.maxBlocksPerMultiProcessor = attribute(106), p.accessPolicyMaxWindowSize = attribute(109);
    p.reservedSharedMemPerBlock = attribute(111);
    if constexpr (std::is_same_v<Properties, Properties12>) {
        p.clockRate = attribute(13), p.memoryClockRate = attribute(36), p.singleToDoublePrecisionPerfRatio = attribute(87);
        p.deviceOverlap = 1;
    }
    return SUCCESS;
}

const std::map<std::string, long>& counts_of(int waits) { return waits ? host_waits_by_name : copies_to_device_by_name; }

}  // namespace

int current_device() { return device_now; }

int fail(int error) {
    if (error != SUCCESS && error != NOT_READY) last_error = error;
    return error;
}

int hazard(const std::string& what) {
    last_hazard = what;
    hazards.push_back(what);
    return HAZARD;
}

int late(int error) {
    if (error != HAZARD || !faults_late) return error;
    fault = ILLEGAL_ADDRESS;
    return SUCCESS;
}

bool has_faulted() { return fault != SUCCESS; }

int note_host_wait(const std::string& what) {
    ++host_waits_by_name[what];
    if (has_faulted()) return fault;
    return waits_refused ? hazard("the host waits for the device: " + what) : SUCCESS;
}

void note_copy_to_device(const std::string& what) { ++copies_to_device_by_name[what]; }

std::string text_of(const char* format, ...) {
    char text[1024];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return text;
}

}  // namespace hostcuda

using namespace hostcuda;

extern "C" {

// ---- what the Python side asks

int hostcuda_hazards() {
    Hold hold(gate);
    return int(hazards.size());
}

const char* hostcuda_hazard(int number) {
    Hold hold(gate);
    return 0 <= number && number < int(hazards.size()) ? hazards[number].c_str() : nullptr;
}

void hostcuda_forget_hazards() {
    Hold hold(gate);
    hazards.clear();
}

// The entries of a table of counts, in the order of their names: waits of the host (1), or copies to a device (0).
int hostcuda_counts(int waits) {
    Hold hold(gate);
    return int(counts_of(waits).size());
}

const char* hostcuda_count(int waits, int number, long* count) {
    Hold hold(gate);
    const auto entry = std::next(counts_of(waits).begin(), number);
    *count = entry->second;
    return entry->first.c_str();
}

void hostcuda_refuse_waits(int refused) {
    Hold hold(gate);
    waits_refused = refused != 0;
}

void hostcuda_late_faults(int on) {
    Hold hold(gate);
    faults_late = on != 0;
    fault = SUCCESS;
}

void hostcuda_skip_work(int skipped) {
    Hold hold(gate);
    work_skipped = skipped != 0;
}

void hostcuda_set_peers(int possible) {
    Hold hold(gate);
    peers_possible = possible != 0;
    peers_enabled.clear();
}

void hostcuda_set_version(int version) { cuda_version = version; }

// In the place of every function of the runtime that the driver does not have.
int hostcuda_not_supported() { return fail(NOT_SUPPORTED); }

// ---- errors

const char* cudaGetErrorName(int error) { return text_for(error).runtime; }
const char* cudaGetErrorString(int error) { return message(error); }

int cudaGetLastError() {
    const int error = last_error;
    last_error = SUCCESS;
    return error;
}

int cudaPeekAtLastError() { return last_error; }

int cuGetErrorName(int error, const char** name) { return *name = text_for(error).driver, SUCCESS; }
int cuGetErrorString(int error, const char** text) { return *text = message(error), SUCCESS; }

// ---- devices

int cudaDriverGetVersion(int* version) { return *version = cuda_version, SUCCESS; }
int cudaRuntimeGetVersion(int* version) { return *version = cuda_version, SUCCESS; }
int cudaGetDeviceCount(int* count) { return *count = DEVICES, SUCCESS; }
int cudaGetDevice(int* device) { return *device = device_now, SUCCESS; }

int cudaSetDevice(int device) {
    if (!is_device(device)) return fail(INVALID_DEVICE);
    device_now = device;
    return SUCCESS;
}

int cudaDeviceGetAttribute(int* value, int number, int device) {
    if (!is_device(device)) return fail(INVALID_DEVICE);
    if (number < 1 || number > LAST_ATTRIBUTE) return fail(INVALID_VALUE);
    *value = attribute(number);
    return SUCCESS;
}

int cudaGetDeviceProperties_v2(void* properties, int device) { return give_properties<Properties12>(properties, device); }
int cudaGetDeviceProperties(void* properties, int device) { return give_properties<Properties13>(properties, device); }

int cudaDeviceGetPCIBusId(char* text, int length, int device) {
    if (!is_device(device)) return fail(INVALID_DEVICE);
    std::snprintf(text, length, "0000:%02x:00.0", device + 1);
    return SUCCESS;
}

int cudaDeviceGetByPCIBusId(int* device, const char* text) {
    unsigned domain = 0, bus = 0, slot = 0;
    if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 || !is_device(int(bus) - 1)) return fail(INVALID_VALUE);
    *device = int(bus) - 1;
    return SUCCESS;
}

int cudaDeviceGetLimit(std::size_t* value, int) { return *value = 1024, SUCCESS; }
int cudaDeviceSetLimit(int, std::size_t) { return SUCCESS; }
int cudaProfilerStart() { return SUCCESS; }
int cudaProfilerStop() { return SUCCESS; }

int cudaMemGetInfo(std::size_t* free, std::size_t* total) { return *free = *total = MEMORY, SUCCESS; }

int cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    if (!is_device(device) || !is_device(peer)) return fail(INVALID_DEVICE);
    *can = peers_possible && device != peer;
    return SUCCESS;
}

int cudaDeviceEnablePeerAccess(int peer, unsigned) {
    Hold hold(gate);
    if (!is_device(peer) || peer == device_now) return fail(INVALID_DEVICE);
    if (!peers_possible) return fail(NO_PEER_ACCESS);
    return peers_enabled.insert({device_now, peer}).second ? SUCCESS : fail(PEER_ENABLED);
}

int cudaDeviceDisablePeerAccess(int peer) {
    Hold hold(gate);
    return peers_enabled.erase({device_now, peer}) ? SUCCESS : fail(PEER_NOT_ENABLED);
}

int hostcuda_peer(int device, int peer) {
    Hold hold(gate);
    return peers_enabled.count({device, peer}) != 0;
}

// ---- the driver's names for devices; a device's context is its number plus one

int cuInit(unsigned) { return SUCCESS; }
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, NOT_FOUND; }  // NVRTC asks, and goes without
int cuDriverGetVersion(int* version) { return cudaDriverGetVersion(version); }
int cuDeviceGetCount(int* count) { return cudaGetDeviceCount(count); }
int cuDeviceGetUuid_v2(char* uuid, int device) {
    if (!is_device(device)) return INVALID_DEVICE;
    std::memset(uuid, 0, 16);
    return uuid[0] = char(device + 1), SUCCESS;
}
int cuDeviceGet(int* device, int number) { return is_device(number) ? (*device = number, SUCCESS) : INVALID_DEVICE; }
int cuCtxGetDevice(int* device) { return cudaGetDevice(device); }
int cuCtxGetCurrent(void** context) { return *context = reinterpret_cast<void*>(std::intptr_t(device_now) + 1), SUCCESS; }
int cuCtxSetCurrent(void* context) { return cudaSetDevice(int(reinterpret_cast<std::intptr_t>(context)) - 1); }
int cuDevicePrimaryCtxRelease(int) { return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
}
