// What a compiled source says of its kernels: how a thread of each is called, and what memory a launch touches.
#pragma once

namespace hostcuda {

// What a parameter touches: a bare pointer all of its allocation from there on, an array the part between its first and last element.
template <typename T>
struct Touches {
    static int ranges(const void*, bool, hostcuda_range*) { return 0; }
};

template <typename T>
struct Touches<T*> {
    static int ranges(const void* value, bool reads_only, hostcuda_range* out) {
        *out = {*static_cast<T* const*>(value), 0, !reads_only && !std::is_const_v<T>, false};
        return 1;
    }
};

#ifdef HOSTCUDA_CUPY
template <typename T, int N, bool contiguous, bool narrow>
struct Touches<CArray<T, N, contiguous, narrow>> {
    static int ranges(const void* value, bool reads_only, hostcuda_range* out) {
        const auto& array = *static_cast<const CArray<T, N, contiguous, narrow>*>(value);
        const char* first = *static_cast<const char* const*>(value);
        const char* last = first;
        bool shared = false;
        if (array.size() == 0) return 0;
        for (int axis = 0; axis < N; ++axis) {
            const std::ptrdiff_t reach = (array.shape()[axis] - 1) * array.strides()[axis];
            (reach < 0 ? first : last) += reach;
            shared |= array.shape()[axis] > 1 && array.strides()[axis] == 0;
        }
        *out = {first, std::size_t(last - first) + sizeof(T), !reads_only && !std::is_const_v<T>, shared};
        return 1;
    }
};
#endif

template <auto function>
struct Caller;

template <typename... A, void (*function)(A...)>
struct Caller<function> {
    template <std::size_t... I>
    static void unpacked(void** parameters, std::index_sequence<I...>) {
        function(*static_cast<std::remove_reference_t<A>*>(parameters[I])...);
    }
    static void call(void** parameters) { unpacked(parameters, std::index_sequence_for<A...>{}); }
    static constexpr unsigned sizes[] = {unsigned(sizeof(A))..., 0};
};

// `constant` has a 1 for each parameter that the source declares const.
template <auto function, const char* constant>
struct Ranges;

template <typename... A, void (*function)(A...), const char* constant>
struct Ranges<function, constant> {
    static int of(void** parameters, hostcuda_range* out) {
        int count = 0, i = 0;
        ((count += Touches<A>::ranges(parameters[i], constant[i] == '1', out + count), ++i), ...);
        return count;
    }
};

template <auto function, const char* constant>
constexpr hostcuda_kernel kernel(const char* name, int max_threads) {
    return {name, Caller<function>::call, Ranges<function, constant>::of, Caller<function>::sizes, max_threads};
}

}  // namespace hostcuda
