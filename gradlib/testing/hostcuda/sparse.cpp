// cuSPARSE for CuPy: its handle and the names of its status codes. The operations on sparse matrices are not written: gradlib has none, and
// what calls one gets "not supported" with a line that names it (libraries.py).

namespace {

struct Handle {
    void* stream = nullptr;
};

const char* const NAMES[] = {
    "CUSPARSE_STATUS_SUCCESS",          "CUSPARSE_STATUS_NOT_INITIALIZED", "CUSPARSE_STATUS_ALLOC_FAILED",
    "CUSPARSE_STATUS_INVALID_VALUE",    "CUSPARSE_STATUS_ARCH_MISMATCH",   "CUSPARSE_STATUS_MAPPING_ERROR",
    "CUSPARSE_STATUS_EXECUTION_FAILED", "CUSPARSE_STATUS_INTERNAL_ERROR",  "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
    "CUSPARSE_STATUS_ZERO_PIVOT",       "CUSPARSE_STATUS_NOT_SUPPORTED",   "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES",
};

}  // namespace

extern "C" {

int cusparseCreate(Handle** handle) { return *handle = new Handle(), 0; }
int cusparseDestroy(Handle* handle) { return delete handle, 0; }
int cusparseGetVersion(Handle*, int* version) { return *version = 12510, 0; }
int cusparseSetStream(Handle* handle, void* stream) { return handle->stream = stream, 0; }
int cusparseGetStream(Handle* handle, void** stream) { return *stream = handle->stream, 0; }
const char* cusparseGetErrorName(int status) { return status >= 0 && status < 12 ? NAMES[status] : "unknown status"; }
const char* cusparseGetErrorString(int status) { return status == 10 ? "not written for the CPU" : "see the name"; }
}
