// cuFFT for CuPy: plans of one, two and three dimensions with the advanced data layout, in single and double precision, on one device.
//
// Sums are taken in double, by the factors of the size: a large prime costs its square. As on a GPU nothing is divided, a complex-to-real
// transform looks at the half spectrum alone, not at the imaginary parts of its real ends, and destroys its input.
#include <cmath>
#include <complex>
#include <deque>
#include <mutex>
#include <numbers>
#include <optional>
#include <vector>

#include "library.h"

using namespace hostcuda;

namespace {

enum Status { SUCCESS = 0, INVALID_PLAN = 1, INVALID_TYPE = 3, INVALID_VALUE = 4, EXEC_FAILED = 6, INVALID_SIZE = 8 };
enum Type { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };

using Number = std::complex<double>;
using Line = std::vector<Number>;

Line turns(long long n, int sign) {  // the n-th roots of one
    Line made(static_cast<size_t>(n));
    for (long long k = 0; k < n; ++k) made[size_t(k)] = std::polar(1.0, sign * 2 * std::numbers::pi * double(k) / double(n));
    return made;
}

// The transform of x[0], x[step], ...: by the smallest factor of their number (Cooley and Tukey, 1965).
Line transform(const Number* x, long long n, long long step, const Line& turn) {
    Line made(static_cast<size_t>(n));
    long long factor = 2;
    while (factor * factor <= n && n % factor) ++factor;
    if (factor * factor > n) factor = n;
    const long long part = n / factor, whole = (long long)turn.size();
    std::vector<Line> parts;
    for (long long p = 0; p < factor; ++p) parts.push_back(part == 1 ? Line{x[p * step]} : transform(x + p * step, part, step * factor, turn));
    for (long long k = 0; k < n; ++k)
        for (long long p = 0; p < factor; ++p) made[size_t(k)] += parts[size_t(p)][size_t(k % part)] * turn[size_t(whole / n * (p * k % n))];
    return made;
}

struct Layout {
    std::vector<long long> embed;
    long long stride = 1, dist = 1;

    long long at(const std::vector<long long>& index) const {
        long long place = 0;
        for (size_t d = 0; d < index.size(); ++d) place = place * (d ? embed[d] : 1) + index[d];
        return place * stride;
    }
};

bool real_in(int type) { return type == R2C || type == D2Z; }
bool real_out(int type) { return type == C2R || type == Z2D; }

struct Plan {
    void* stream = nullptr;
    int type = 0;
    long long batch = 0;
    std::vector<long long> n, before, after;  // the sizes of the transform, of what it reads and of what it writes
    Layout in, out;

    int make(std::vector<long long> sizes, int of_type, long long count) {
        if (of_type != C2C && of_type != Z2Z && !real_in(of_type) && !real_out(of_type)) return INVALID_TYPE;
        for (const long long size : sizes)
            if (size < 1) return INVALID_SIZE;
        if (count < 1) return INVALID_SIZE;
        n = before = after = std::move(sizes);
        type = of_type, batch = count;
        if (real_out(type)) before.back() = n.back() / 2 + 1;
        if (real_in(type)) after.back() = n.back() / 2 + 1;
        in = natural(before), out = natural(after);
        return SUCCESS;
    }

    static Layout natural(const std::vector<long long>& sizes) {
        long long dist = 1;
        for (const long long size : sizes) dist *= size;
        return {sizes, 1, dist};
    }

    long long length(const Layout& layout, const std::vector<long long>& sizes) const {
        std::vector<long long> last = sizes;
        for (auto& index : last) --index;
        return (batch - 1) * layout.dist + layout.at(last) + 1;
    }

    // Each index into these sizes in turn, the last dimension running fastest.
    template <class F> static void each(const std::vector<long long>& sizes, F use) {
        std::vector<long long> index(sizes.size(), 0);
        for (long long number = 0;; ++number) {
            use(index, size_t(number));
            size_t d = sizes.size();
            while (d-- > 0 && ++index[d] == sizes[d]) index[d] = 0;
            if (d == size_t(-1)) return;
        }
    }

    // One dimension of a block in row order; where that shortens or lengthens it, so does the block.
    static Line along(const Line& block, std::vector<long long>& sizes, size_t d, long long size, int sign, bool from_half) {
        long long inner = 1, outer = 1;
        for (size_t i = d + 1; i < sizes.size(); ++i) inner *= sizes[i];
        for (size_t i = 0; i < d; ++i) outer *= sizes[i];
        const long long had = sizes[d];
        const Line turn = turns(size, sign);
        Line made(size_t(outer * size * inner)), line(static_cast<size_t>(size));
        for (long long o = 0; o < outer; ++o)
            for (long long i = 0; i < inner; ++i) {
                for (long long k = 0; k < size; ++k) {
                    const bool mirrored = k >= had;
                    const Number value = block[size_t((o * had + (mirrored ? size - k : k)) * inner + i)];
                    const bool end = from_half && (k == 0 || 2 * k == size);
                    line[size_t(k)] = end ? Number(value.real()) : mirrored ? std::conj(value) : value;
                }
                const Line result = transform(line.data(), size, 1, turn);
                for (long long k = 0; k < size; ++k) made[size_t((o * size + k) * inner + i)] = result[size_t(k)];
            }
        sizes[d] = size;
        return made;
    }

    template <class From, class To> int run(const char* name, From* from, To* to, int direction) {
        if (n.empty()) return INVALID_PLAN;
        Call call(stream, name);
        call.reads(vector(from, length(in, before))).writes(vector(to, length(out, after)));
        if (real_out(type)) call.writes(vector(from, length(in, before)));
        const Plan plan = *this;  // a graph may run the work when the plan is gone
        return call.run([=] { plan.work(from, to, direction); }) ? EXEC_FAILED : SUCCESS;
    }

    template <class From, class To> void work(From* from, To* to, int direction) const {
        const size_t last = n.size() - 1;
        std::vector<Line> blocks;
        for (long long b = 0; b < batch; ++b) {
            std::vector<long long> sizes = before;
            Line block(static_cast<size_t>(natural(before).dist));
            each(before, [&](const auto& index, size_t number) { block[number] = Number(from[b * in.dist + in.at(index)]); });
            for (size_t d = 0; d <= last; ++d) block = along(block, sizes, d, n[d], direction, real_out(type) && d == last);
            blocks.push_back(std::move(block));
        }
        if (real_out(type)) each_place(in, before, [&](long long place, long long, size_t) { from[place] = From(std::nan("")); });
        each_place(out, after, [&](long long place, long long b, size_t number) {
            const long long row = (long long)number / after[last] * n[last] + (long long)number % after[last];
            assign(to[place], blocks[size_t(b)][size_t(row)]);
        });
    }

    template <class F> void each_place(const Layout& layout, const std::vector<long long>& sizes, F use) const {
        for (long long b = 0; b < batch; ++b)
            each(sizes, [&](const auto& index, size_t number) { use(b * layout.dist + layout.at(index), b, number); });
    }

    template <class T> static void assign(T& to, const Number& value) { to = T(value.real()); }
    template <class T> static void assign(std::complex<T>& to, const Number& value) { to = std::complex<T>(value); }
};

std::mutex lock;  // threads make and drop plans while others use theirs
std::deque<std::optional<Plan>> plans;  // a handle is a number, one more than the place here

Plan* plan_of(int handle) {
    const std::lock_guard held(lock);
    return handle > 0 && size_t(handle) <= plans.size() && plans[size_t(handle) - 1] ? &*plans[size_t(handle) - 1] : nullptr;
}

template <class From, class To> int run(int handle, const char* name, int type, From* from, To* to, int direction) {
    Plan* plan = plan_of(handle);
    if (!plan) return INVALID_PLAN;
    return plan->type == type ? plan->run(name, from, to, direction) : INVALID_TYPE;
}

}  // namespace

extern "C" {

using Single = std::complex<float>;
using Double = std::complex<double>;

int cufftGetVersion(int* version) { return *version = 11400, SUCCESS; }
int cufftCreate(int* handle) {
    const std::lock_guard held(lock);
    plans.emplace_back(Plan());
    return *handle = int(plans.size()), SUCCESS;
}
int cufftDestroy(int handle) {
    if (!plan_of(handle)) return INVALID_PLAN;
    const std::lock_guard held(lock);
    plans[size_t(handle) - 1].reset();
    return SUCCESS;
}
int cufftSetAutoAllocation(int handle, int) { return plan_of(handle) ? SUCCESS : INVALID_PLAN; }
int cufftSetWorkArea(int handle, void*) { return plan_of(handle) ? SUCCESS : INVALID_PLAN; }
int cufftSetStream(int handle, void* stream) {
    Plan* plan = plan_of(handle);
    if (!plan) return INVALID_PLAN;
    plan->stream = stream;
    return SUCCESS;
}

int cufftMakePlan1d(int handle, int n, int type, int batch, size_t* space) {
    Plan* plan = plan_of(handle);
    *space = 0;
    return plan ? plan->make({n}, type, batch) : INVALID_PLAN;
}
int cufftMakePlanMany(int handle, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist, int type,
                      int batch, size_t* space) {
    Plan* plan = plan_of(handle);
    *space = 0;
    if (!plan) return INVALID_PLAN;
    if (rank < 1 || rank > 3) return INVALID_VALUE;
    if (const int error = plan->make({n, n + rank}, type, batch)) return error;
    if (inembed && onembed) {
        plan->in = {{inembed, inembed + rank}, istride, idist};
        plan->out = {{onembed, onembed + rank}, ostride, odist};
    }
    return SUCCESS;
}

int cufftExecC2C(int handle, Single* from, Single* to, int direction) { return run(handle, __func__, C2C, from, to, direction); }
int cufftExecZ2Z(int handle, Double* from, Double* to, int direction) { return run(handle, __func__, Z2Z, from, to, direction); }
int cufftExecR2C(int handle, float* from, Single* to) { return run(handle, __func__, R2C, from, to, -1); }
int cufftExecD2Z(int handle, double* from, Double* to) { return run(handle, __func__, D2Z, from, to, -1); }
int cufftExecC2R(int handle, Single* from, float* to) { return run(handle, __func__, C2R, from, to, 1); }
int cufftExecZ2D(int handle, Double* from, double* to) { return run(handle, __func__, Z2D, from, to, 1); }

}  // extern "C"
