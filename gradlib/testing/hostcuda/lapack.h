// LAPACK and BLAS as SciPy brings them: Python hands over the functions of scipy.linalg.cython_blas and cython_lapack by name, once,
// when the library is loaded. They take Fortran's arguments, so everything goes by address and matrices lie in column order.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "numbers.h"

namespace hostcuda {

inline std::unordered_map<std::string, void*>& functions() {
    static std::unordered_map<std::string, void*> table;
    return table;
}

inline void* function_named(const std::string& name) {
    const auto found = functions().find(name);
    if (found != functions().end()) return found->second;
    std::fprintf(stderr, "hostcuda: this SciPy has no LAPACK or BLAS function %s\n", name.c_str());
    std::abort();
}

template <class T> constexpr char letter = 0;
template <> inline constexpr char letter<float> = 's';
template <> inline constexpr char letter<double> = 'd';
template <> inline constexpr char letter<Complex> = 'c';
template <> inline constexpr char letter<DoubleComplex> = 'z';

template <class T> T* address(T* const& pointer) { return pointer; }
template <class T> T* address(const T& value) { return const_cast<T*>(&value); }

// Call a subroutine of BLAS or LAPACK for the type T: its name without the letter, then its arguments, numbers as they are.
template <class T, class... A> void fortran(const char* name, const A&... arguments) {
    void* function = function_named(std::string(1, letter<T>) + name);
    reinterpret_cast<void (*)(decltype(address(arguments))...)>(function)(address(arguments)...);
}

// The name that differs between real and complex types, as orgqr and ungqr do.
template <class T> const char* named(const char* real, const char* complex) { return is_complex<T> ? complex : real; }

}  // namespace hostcuda

extern "C" void hostcuda_take_function(const char* name, void* function) { hostcuda::functions()[name] = function; }
