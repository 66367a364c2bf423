"""Steps of many parameters on a GPU in one launch: the whole rule of an optimiser as one kernel over all of them.

The kernels compute what the rules in `gradlib.optim.adam`, `gradlib.optim.sgd` and others compute, rounded at the same places, so the bits
are the same as without. Parameters and gradients stay where they are (`gradlib.backend.several`); the state is joined, as
`gradlib.optim.foreach` keeps it. What is not served here takes the other way there: parameters that are not contiguous or not of one real
dtype, rates and counts that are kept on the device. Where each parameter has its count on the device, as a CUDA graph needs it, the step of
`COUNTED` is two launches, and the state of each parameter stays where it is too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from gradlib.backend.array import Array, cupy, is_cupy, on_device_of
from gradlib.backend.several import CTYPES, MOST_ARRAYS, PAIRS, Family
from gradlib.core.modes import writing
from gradlib.core.tensor import Tensor
from gradlib.core.writes import refuse_inference


class Rule(NamedTuple):
    """A step as its kernel is told of it.

    Attributes:
        kernel: its name. state: the joined arrays that it reads and writes. numbers: the others of its arguments, in its order.
        after: the numbers of the state behind the step, but its count.
    """

    kernel: str
    state: tuple[Array, ...]
    numbers: tuple[float, ...]
    after: Mapping[str, float] = MappingProxyType({})


_DESCENT = """T p = t.p[k][j], g = t.g[k][j] * sign;
    if (decay != 0) g = g + decay * p;
    """
_SHRUNK = _DESCENT.replace("t.p[k][j],", "t.p[k][j] * shrink,")
_MEANS = """T m = m_[i], s = s_[i];
    m = m + (g - m) * mean_share;
    s = s * square_kept + g * g * square_share;
    m_[i] = m, s_[i] = s;
    """
FAMILY = Family({
    "adam": (
        "T* m_, T* s_, T sign, T shrink, T decay, T mean_share, T square_kept, T square_share, T root, T epsilon, T rate",
        f"{_SHRUNK}{_MEANS}t.p[k][j] = p - rate * m / (sqrt(s) / root + epsilon);",
    ),
    "nadam": (
        "T* m_, T* s_, T sign, T shrink, T decay, T mean_share, T square_kept, T square_share, T root, T epsilon, T now, T later",
        f"{_SHRUNK}{_MEANS}t.p[k][j] = p - (now * g + later * m) / (sqrt(s) / root + epsilon);",
    ),
    "radam": (
        "T* m_, T* s_, T sign, T shrink, T decay, T mean_share, T square_kept, T square_share, T adapts, T epsilon, T rate",
        f"{_SHRUNK}{_MEANS}t.p[k][j] = p - m * (adapts != 0 ? rate / (sqrt(s) + epsilon) : rate);",
    ),
    "asgd": (
        "T* a_, T sign, T decay, T kept, T eta, T share",
        f"""{_DESCENT}p = p * kept - eta * g;
    const T a = a_[i];
    a_[i] = share == 1 ? p : a + share * (p - a);
    t.p[k][j] = p;""",
    ),
    "rprop": (
        "T* b_, T* l_, T sign, T shrink, T grow, T shortest, T longest",
        """T g = t.g[k][j] * sign;
    const T turned = g * b_[i], l = l_[i] * (turned > 0 ? grow : turned < 0 ? shrink : T(1));
    const T size = isnan(l) ? l : min(max(l, shortest), longest);
    g = turned < 0 ? T(0) : g;
    b_[i] = g, l_[i] = size;
    t.p[k][j] = t.p[k][j] - (isnan(g) ? g : T(g > 0) - T(g < 0)) * size;""",
    ),
    "sgd": (
        "T sign, T decay, T rate",
        f"{_DESCENT}t.p[k][j] = p - rate * g;",
    ),
    "momentum": (
        "T* b_, T sign, T decay, T kept, T share, T nesterov, T rate",
        f"""{_DESCENT}const T b = kept * b_[i] + share * g;
    b_[i] = b;
    g = nesterov != 0 ? g + kept * b : b;
    t.p[k][j] = p - rate * g;""",
    ),
    "rmsprop": (
        "T* s_, T sign, T decay, T kept, T share, T epsilon, T rate",
        f"""{_DESCENT}const T s = s_[i] * kept + g * g * share;
    s_[i] = s;
    t.p[k][j] = p - rate * (g / (sqrt(s) + epsilon));""",
    ),
    "rmsprop_momentum": (
        "T* s_, T* b_, T sign, T decay, T kept, T share, T epsilon, T momentum, T rate",
        f"""{_DESCENT}const T s = s_[i] * kept + g * g * share;
    const T b = b_[i] * momentum + g / (sqrt(s) + epsilon);
    s_[i] = s, b_[i] = b;
    t.p[k][j] = p - rate * b;""",
    ),
    "adagrad": (
        "T* s_, T sign, T decay, T epsilon, T rate",
        f"""{_DESCENT}const T s = s_[i] + g * g;
    s_[i] = s;
    t.p[k][j] = p - rate * (g / (sqrt(s) + epsilon));""",
    ),
    "adadelta": (
        "T* s_, T* d_, T sign, T decay, T kept, T share, T epsilon, T rate",
        f"""{_DESCENT}const T s = s_[i] * kept + g * g * share, before = d_[i];
    const T d = sqrt(before + epsilon) / sqrt(s + epsilon) * g;
    s_[i] = s, d_[i] = before * kept + d * d * share;
    t.p[k][j] = p - rate * d;""",
    ),
    "adamax": (
        "T* m_, T* l_, T sign, T decay, T mean_share, T kept, T epsilon, T rate",
        f"""{_DESCENT}const T m = m_[i] + (g - m_[i]) * mean_share, before = kept * l_[i], size = fabs(g) + epsilon;
    const T l = isnan(before) ? before : isnan(size) ? size : max(before, size);
    m_[i] = m, l_[i] = l;
    t.p[k][j] = p - rate * (m / l);""",
    ),
})  # fmt: skip
"""Their tables hold parameters and gradients."""


class Counted(NamedTuple):
    """A step of parameters that have their counts on the device, as its kernels are told of it.

    Attributes:
        kernel: its name in `COUNTED`. state: the names of what it reads and writes for each parameter.
        factors: the numbers of the kernel that counts, but the learning rate. numbers: those of the step.
    """

    kernel: str
    state: tuple[str, str]
    factors: tuple[float, ...]
    numbers: tuple[float, ...]


_FACTORS = 3
"""How many numbers of each parameter the kernel that counts hands on, which are rounded once."""
COUNTED = Family({
    "adam_factors": (
        "T* f_, const float* single, const double* twice, double mean_kept, double square_kept, double decay, double given",
        """const double steps = double(*t.count[k]) + 1, rate = single ? double(*single) : twice ? *twice : given;
    *t.count[k] = float(steps);
    f_[3 * k] = T(1 - rate * decay);
    f_[3 * k + 1] = T(sqrt(1 - pow(square_kept, steps)));
    f_[3 * k + 2] = T(rate / (1 - pow(mean_kept, steps)));""",
    ),
    "adam": (
        "const T* f_, T sign, T decay, T mean_share, T square_kept, T square_share, T epsilon",
        f"""const T shrink = f_[3 * k], root = f_[3 * k + 1], rate = f_[3 * k + 2];
    {_SHRUNK}{_MEANS.replace("m_[i]", "t.m[k][j]").replace("s_[i]", "t.s[k][j]")}t.p[k][j] = p - rate * m / (sqrt(s) / root + epsilon);""",
    ),
}, {**PAIRS, "m": "T*", "s": "T*", "count": "float*"}, most=80)  # fmt: skip
"""Their tables hold parameters, gradients, two arrays of the state, and the count, as float32."""


def shrinking(group: dict[str, Any]) -> tuple[float, float, float]:
    """The same where weight decay may be apart from the gradient: the sign, what the parameter is multiplied by, and the rest of it."""
    sign, decay = given(group)
    apart = group["decoupled_weight_decay"]
    return sign, 1 - float(group["lr"]) * decay if apart and decay else 1.0, 0.0 if apart else decay


def given(group: dict[str, Any]) -> tuple[float, float]:
    """What every rule begins with: the sign of the gradient, and the weight decay that is added to it."""
    return -1.0 if group["maximize"] else 1.0, float(group["weight_decay"])


def is_plain(state: dict[str, Any], group: dict[str, Any], entries: int) -> bool:
    """Whether a joined state has so many entries, and neither it nor the group keeps a number on the device."""
    numbers = (group["lr"], *[state.get(name) for name in ("step", "eta", "mu", "mu_product")])
    return len(state) == entries and not group.get("capturable") and Tensor not in map(type, numbers)


@contextmanager
def _written(values: Sequence[Tensor]) -> Iterator[None]:
    """Around a step that writes parameters by a kernel: what such a write asks beforehand of each, and counts afterwards."""
    for value in values:
        refuse_inference(value)
    for value in values:
        writing(value)
    try:
        yield
    finally:
        for value in values:
            value.version.bump()


def step(values: Sequence[Tensor], ends: Sequence[int], rule: Rule) -> bool:
    """Step parameters, on the current device, by a rule. Returns: whether it could be done; if not, nothing was written.

    Args:
        values: the parameters, which have gradients; ends: how many elements they have up to and with each.
    """
    first = values[0]._array
    dtype, device, char = first.dtype, first.data.device_id, first.dtype.char
    if char not in CTYPES or not 0 < ends[-1] < 1 << 31 or any(x.dtype is not dtype or not x._c_contiguous for x in rule.state):
        return False
    pairs = []
    for value in values:
        p, g = value._array, value.grad._array  # type: ignore[union-attr]
        if g.dtype is not dtype or not p._c_contiguous or not g._c_contiguous or p.shape != g.shape or g.data.device_id != device:
            return False
        pairs.append((p.data.ptr, g.data.ptr))
    with _written(values):
        cupy().cuda.runtime.setDevice(device)  # so that a thread which has not used it yet can launch by the driver's call
        for start in range(0, len(values), MOST_ARRAYS):
            base, some = ends[start - 1] if start else 0, slice(start, start + MOST_ARRAYS)
            state = [x.data.ptr + base * dtype.itemsize for x in rule.state]
            FAMILY.launch(rule.kernel, char, device, pairs[some], [end - base for end in ends[some]], state, rule.numbers)
    return True


def step_counted(values: Sequence[Tensor], states: Mapping[Tensor, Mapping[str, Any]], lr: Any, rule: Counted) -> bool:
    """Step parameters that have their counts on the device. Returns: whether it could be done; if not, nothing was written.

    Args:
        values: the parameters, which have gradients; states: the optimiser's. lr: a number, or a tensor on the device.
    """
    if not values or not is_cupy(values[0]._array):
        return False
    first, table, ends, written, n = values[0]._array, [], [], [], 0
    kind, dtype, device = type(first), first.dtype, first.data.device_id
    for value in values:
        known = [x for name in (*rule.state, "step") if isinstance(x := states[value].get(name), Tensor)]
        if len(known) <= len(rule.state):  # before its first step
            return False
        p, g, *kept, count = [x._array for x in (value, value.grad, *known)]  # type: ignore[union-attr]
        row = []
        for x in (p, g, *kept, count):
            if type(x) is not kind or x.data.device_id != device or (x is not count and (x.dtype is not dtype or x.shape != p.shape)):
                return False
            if not x._c_contiguous:
                return False
            row.append(x.data.ptr)
        if count.dtype.char != "f" or count.size != 1:
            return False
        written += [row[0], *row[2:]] if p.size else row[-1:]
        n += p.size
        ends.append(n)
        table.append(tuple(row))
    if dtype.char not in CTYPES or n >= 1 << 31 or len(set(written)) < len(written):
        return False
    rates, given = [0, 0], 0.0
    if isinstance(lr, Tensor) and is_cupy(lr._array):
        if lr._array.dtype.char not in "fd" or lr._array.data.device_id != device:
            return False
        rates["fd".index(lr._array.dtype.char)] = lr._array.data.ptr
    else:
        given = float(lr)
    with _written(values), on_device_of(first):
        cupy().cuda.runtime.setDevice(device)  # as above
        factors = kind((_FACTORS * len(values),), dtype)
        for start in range(0, len(values), COUNTED.most):
            rows, base = table[start : start + COUNTED.most], ends[start - 1] if start else 0
            handed = factors.data.ptr + _FACTORS * start * dtype.itemsize
            counts, sizes = range(1, len(rows) + 1), [end - base for end in ends[start : start + COUNTED.most]]
            COUNTED.launch(f"{rule.kernel}_factors", dtype.char, device, rows, counts, [handed, *rates], [*rule.factors, given])
            COUNTED.launch(rule.kernel, dtype.char, device, rows, sizes, [handed], rule.numbers)
    return True
