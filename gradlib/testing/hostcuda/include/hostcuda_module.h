// What a compiled source says of its kernels: how a thread of each is called, and what its parameters are. That is data, from which the
// driver finds the memory that a launch touches: a function for it would be compiled once for each kernel.
#pragma once

namespace hostcuda {

template <typename T>
constexpr hostcuda_parameter parameter{hostcuda_parameter::value, sizeof(T), true, 0, 0};

template <typename T>
constexpr hostcuda_parameter parameter<T*>{hostcuda_parameter::pointer, sizeof(T*), std::is_const_v<T>, 0, 0};

#ifdef HOSTCUDA_CUPY
template <typename T, int N, bool contiguous, bool narrow>
constexpr hostcuda_parameter parameter<CArray<T, N, contiguous, narrow>>{
    hostcuda_parameter::array, sizeof(CArray<T, N, contiguous, narrow>), std::is_const_v<T>, N, sizeof(T)};
#endif

template <auto function>
struct Kernel;

template <typename... A, void (*function)(A...)>
struct Kernel<function> {
    template <std::size_t... I>
    static void unpacked(void** parameters, std::index_sequence<I...>) {
        function(*static_cast<std::remove_reference_t<A>*>(parameters[I])...);
    }
    static void call(void** parameters) { unpacked(parameters, std::index_sequence_for<A...>{}); }
    static constexpr hostcuda_parameter parameters[] = {parameter<A>..., {}};
};

// `constant` has a 1 for each parameter that the source declares const.
template <auto function>
constexpr hostcuda_kernel kernel(const char* name, const char* constant, int max_threads) {
    return {name, Kernel<function>::call, Kernel<function>::parameters, constant, max_threads};
}

}  // namespace hostcuda
