// What kernels call that were compiled under sanitizers (HOSTCUDA_SANITIZE, compiler.py): before each access to memory, and where the
// behaviour is not defined. There is no library of a sanitizer beneath: the driver knows every allocation to the byte.
#include <elf.h>
#include <link.h>

#include "driver.h"
#include "fibres.h"
#include "hostcuda.h"

namespace hostcuda {
namespace {

struct Span {
    std::uintptr_t from, to;
    bool holds(std::uintptr_t at, std::size_t bytes) const { return from <= at && at + bytes <= to; }
};

Launched now{};
Span seen[256];  // spans that may be touched during this launch, by a part of the address

int note_image(dl_phdr_info* image, std::size_t, void* place) {
    Span& span = *static_cast<Span*>(place);
    for (int i = 0; i < image->dlpi_phnum; ++i) {
        const auto& part = image->dlpi_phdr[i];
        const std::uintptr_t from = image->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && from <= span.from && span.from < from + part.p_memsz) return span = {from, from + part.p_memsz}, 1;
    }
    return 0;
}

Span as_span(const void* from, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(from);
    return {at, at + bytes};
}

// Where a thread may reach from an address: what was allocated, shared memory, its own stack, its parameters, variables of its source.
std::string refusal(std::uintptr_t at, std::size_t bytes, Span& span) {
    void* const pointer = reinterpret_cast<void*>(at);
    const Span shared = as_span(now.shared, now.shared_room);
    if (shared.holds(at, 1)) {
        span = as_span(now.shared, now.shared_bytes);
        return span.holds(at, bytes) ? "" : text_of("byte %td of %zu bytes of shared memory", std::ptrdiff_t(at - span.from), now.shared_bytes);
    }
    if (const Extent extent = extent_of(pointer); extent.known) {
        span = as_span(extent.from, extent.bytes);
        if (extent.freed) return "memory that has been freed";
        return span.holds(at, bytes) ? "" : text_of("byte %td of an allocation of %zu bytes", std::ptrdiff_t(at - span.from), extent.bytes);
    }
    for (const Span own : {as_span(now.parameters, now.parameter_bytes), as_span(now.places, now.place_bytes), as_span(stack_of(pointer), STACK)})
        if (own.holds(at, bytes)) return span = own, "";
    span = {at, at};
    if (dl_iterate_phdr(note_image, &span) && span.holds(at, bytes)) return "";
    return text_of("address %p, which lies in no allocation", pointer);
}

void check(const void* pointer, std::size_t bytes, const char* what) {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    Span& kept = seen[(at >> 9) % 256];
    if (kept.holds(at, bytes) || !runs()) return;
    Span span{};
    const std::string wrong = refusal(at, bytes, span);
    if (wrong.empty()) {
        kept = span;
        return;
    }
    hostcuda_trap(text_of("%s %zu bytes at %s (%s)", what, bytes, wrong.c_str(), who().c_str()).c_str());
}

struct Location {
    const char* file;
    unsigned line, column;
};

[[noreturn]] void undefined(const Location* at, const char* what) {
    const std::string file = at->file ? at->file : "";
    const std::string name = file.substr(file.rfind('/') + 1);
    const std::string place = name.rfind(".cpp") == std::string::npos ? " of " + name : "";
    hostcuda_trap(text_of("%s in line %u%s (%s)", what, at->line, place.c_str(), who().c_str()).c_str());
    __builtin_unreachable();
}

}  // namespace

void sanitize(const Launched& launched) {
    now = launched;
    for (Span& span : seen) span = {};
}

void check_access(const void* from, std::size_t bytes, bool write) { check(from, bytes, write ? "writes" : "reads"); }

}  // namespace hostcuda

using namespace hostcuda;

extern "C" {

#define ACCESS(bytes)                                                           \
    void __asan_load##bytes##_noabort(void* at) { check(at, bytes, "reads"); } \
    void __asan_store##bytes##_noabort(void* at) { check(at, bytes, "writes"); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __asan_loadN_noabort(void* at, std::size_t bytes) { check(at, bytes, "reads"); }
void __asan_storeN_noabort(void* at, std::size_t bytes) { check(at, bytes, "writes"); }
void __asan_handle_no_return() {}

#define UNDEFINED(name, text) \
    void __ubsan_handle_##name(const Location* at) { undefined(at, text); }
UNDEFINED(type_mismatch_v1, "a pointer is used that is null, not aligned for its type, or outside of its variable")
UNDEFINED(out_of_bounds, "an index outside of its array")
UNDEFINED(shift_out_of_bounds, "a shift by more bits than there are, or by fewer than none")
UNDEFINED(divrem_overflow, "a division of integers by zero, or one that overflows")
UNDEFINED(load_invalid_value, "a bool or an enumeration holds what is none")
UNDEFINED(builtin_unreachable, "a place is reached that cannot be")
UNDEFINED(missing_return, "a function ends without a value")
UNDEFINED(vla_bound_not_positive, "an array of no length")
UNDEFINED(nonnull_arg, "a null pointer where none may be")
UNDEFINED(nonnull_return_v1, "a null pointer is returned where none may be")
UNDEFINED(invalid_builtin, "a builtin of zero that is not defined there")
UNDEFINED(float_cast_overflow, "a number becomes an integer that does not hold it")
UNDEFINED(add_overflow, "a sum of integers overflows")
UNDEFINED(sub_overflow, "a difference of integers overflows")
UNDEFINED(mul_overflow, "a product of integers overflows")
UNDEFINED(negate_overflow, "the negative of an integer overflows")
}
