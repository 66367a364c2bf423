"""cuRAND on the CPU: the published vectors, the numbers that follow from them, and the distributions."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import scipy.stats

from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")

PHILOX, XORWOW = 161, 101


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox 4x32-10 in NumPy. Args: counter: (n, 4) uint32. Source: Salmon, Moraes, Dror and Shaw (2011), section 4.3."""
    x = counter.astype(np.uint64)
    mask, (k0, k1) = np.uint64(0xFFFFFFFF), key
    for _ in range(10):
        a, b = x[:, 0] * np.uint64(0xD2511F53), x[:, 2] * np.uint64(0xCD9E8D57)
        high = np.uint64(32)
        x = np.stack([(b >> high) ^ x[:, 1] ^ np.uint64(k0), b & mask, (a >> high) ^ x[:, 3] ^ np.uint64(k1), a & mask], axis=1)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x.astype(np.uint32)


VECTORS = [  # the known answers of Random123, tests/kat_vectors: philox4x32 10
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
@pytest.mark.slow
def test_philox_gives_the_published_numbers(counter: str, key: str, expected: str) -> None:
    from gradlib.testing.hostcuda import libraries

    def words(text: str) -> list[int]:
        return [int(word, 16) for word in text.split()]

    result = (ctypes.c_uint32 * 4)()
    library = ctypes.CDLL(str(libraries._made("curand")))
    library.hostcuda_philox((ctypes.c_uint32 * 4)(*words(counter)), (ctypes.c_uint32 * 2)(*words(key)), result)
    assert list(result) == words(expected)
    assert philox(np.array([words(counter)], np.uint32), tuple(words(key)))[0].tolist() == words(expected)  # type: ignore[arg-type]


def bits(method: int, seed: int, count: int, offset: int = 0) -> np.ndarray:
    """What curandGenerate writes."""
    from cupy_backends.cuda.libs import curand

    generator = curand.createGenerator(method)
    curand.setPseudoRandomGeneratorSeed(generator, seed)
    curand.setGeneratorOffset(generator, offset)
    out = cupy.empty(count, np.uint32)
    curand.generate(generator, out.data.ptr, count)
    curand.destroyGenerator(generator)
    return out.get()


def in_legacy_order(seed: int, count: int, draws: int = 1) -> np.ndarray:
    """The words behind each group of four results: (groups, draws * 4). Source: cuRAND's guide, 65536 subsequences in turn."""
    group = np.arange((count + 3) // 4, dtype=np.uint64)
    parts = []
    for part in range(draws):
        step = group // 65536 * draws + part
        counter = np.stack([step & 0xFFFFFFFF, step >> np.uint64(32), group % 65536, np.zeros_like(group)], axis=1).astype(np.uint32)
        parts.append(philox(counter, (seed & 0xFFFFFFFF, seed >> 32)))
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("seed", [0, 1234, (1 << 63) + 5])
def test_bits_of_philox_stand_in_cuRANDs_order(seed: int) -> None:
    count = 65536 * 4 + 10  # the subsequences begin again
    expected = in_legacy_order(seed, count).reshape(-1)[:count]
    np.testing.assert_array_equal(bits(PHILOX, seed, count), expected)
    np.testing.assert_array_equal(bits(PHILOX, seed, 20, offset=7), expected[7:27])


def test_the_next_draw_goes_on() -> None:
    state = cupy.random.RandomState(5, method=PHILOX)
    both = [state.random_sample(8, dtype="f").get() for _ in range(2)]
    state.seed(5)
    np.testing.assert_array_equal(np.concatenate(both), state.random_sample(16, dtype="f").get())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_follow_from_the_bits(dtype: str) -> None:
    state = cupy.random.RandomState(77, method=PHILOX)
    got = state.random_sample(1001, dtype=dtype).get()
    if dtype == "float32":
        expected = (in_legacy_order(77, 1001).reshape(-1).astype("f").astype("d") * 2**-32 + 2**-33).astype("f")  # rounded as an fma rounds
    else:
        words = in_legacy_order(77, 1001, draws=2).reshape(-1, 4, 2).astype(np.uint64)
        expected = ((words[..., 0] ^ (words[..., 1] << np.uint64(21))).astype("d") * 2**-53 + 2**-54).reshape(-1)
    expected[expected == 1] = 0  # cuRAND's interval is (0, 1], CuPy's [0, 1)
    np.testing.assert_array_equal(got, expected[:1001])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_box_mullers(dtype: str) -> None:
    got = cupy.random.RandomState(77, method=PHILOX).standard_normal(1000, dtype=dtype).get()
    if dtype == "float32":
        words = in_legacy_order(77, 1000).reshape(-1, 2).astype("d")
        length, angle = words[:, 0] * 2**-32 + 2**-33, (words[:, 1] * 2**-32 + 2**-33) * 2 * np.pi
    else:
        words = in_legacy_order(77, 1000, draws=2).reshape(-1, 2, 2).astype(np.uint64)
        joined = (words[..., 0] ^ (words[..., 1] << np.uint64(21))).astype("d")
        length, angle = joined[:, 0] * 2**-53 + 2**-54, (joined[:, 1] * 2**-53 + 2**-54) * 2 * np.pi
    expected = np.sqrt(-2 * np.log(length))[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    np.testing.assert_allclose(got, expected.reshape(-1).astype(dtype), atol=1e-5 if dtype == "float32" else 1e-13)


def xorwow_words(seed: int, count: int) -> list[int]:
    """The first subsequence of XORWOW. Source: Marsaglia (2003); cuRAND's seeding."""
    mask = 0xFFFFFFFF
    s0, s1 = (seed & mask) ^ 0xAAD26B49, (seed >> 32) ^ 0xF7DCEFDD
    t0, t1 = 1099087573 * s0 & mask, 2591861531 * s1 & mask
    v = [(123456789 + t0) & mask, 362436069 ^ t0, (521288629 + t1) & mask, 88675123 ^ t1, (5783321 + t0) & mask]
    d = (6615241 + t1 + t0) & mask
    made = []
    for _ in range(count):
        t = v[0] ^ (v[0] >> 2)
        v = [*v[1:], (v[4] ^ (v[4] << 4) ^ (t ^ (t << 1))) & mask]
        d = (d + 362437) & mask
        made.append((v[4] + d) & mask)
    return made


def test_bits_of_xorwow() -> None:
    got = bits(XORWOW, 42, 4096 * 3)
    np.testing.assert_array_equal(got[::4096], xorwow_words(42, 3))
    assert np.unique(got).size > 4096 * 3 - 10  # the subsequences differ
    np.testing.assert_array_equal(bits(XORWOW, 42, 100, offset=4090), got[4090:4190])


def test_xorwows_subsequences_lie_two_to_the_67_apart() -> None:
    def step(bit: int) -> int:  # one step of the five words, as a map of single bits
        v = [(1 << bit) >> (32 * i) & 0xFFFFFFFF for i in range(5)]
        t = v[0] ^ (v[0] >> 2)
        v = [*v[1:], (v[4] ^ (v[4] << 4) ^ (t ^ (t << 1))) & 0xFFFFFFFF]
        return sum(word << (32 * i) for i, word in enumerate(v))

    power = np.array([[step(bit) >> row & 1 for bit in range(160)] for row in range(160)])
    for _ in range(67):
        power = power @ power % 2
    seed, mask = 42, 0xFFFFFFFF
    s0, s1 = seed ^ 0xAAD26B49, 0xF7DCEFDD
    t0, t1 = 1099087573 * s0 & mask, 2591861531 * s1 & mask
    v = [(123456789 + t0) & mask, 362436069 ^ t0, (521288629 + t1) & mask, 88675123 ^ t1, (5783321 + t0) & mask]
    start = np.array([v[i // 32] >> (i % 32) & 1 for i in range(160)])
    far = power @ start % 2
    words = [sum(int(far[32 * i + j]) << j for j in range(32)) for i in range(5)]
    t = words[0] ^ (words[0] >> 2)
    last = (words[4] ^ (words[4] << 4) ^ (t ^ (t << 1))) & mask
    assert bits(XORWOW, seed, 2)[1] == (last + ((6615241 + t1 + t0 + 362437) & mask)) & mask


@pytest.mark.parametrize("method", [PHILOX, XORWOW])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(method: int, dtype: str) -> None:
    state = cupy.random.RandomState(11, method=method)
    count = 40_001  # odd: CuPy asks cuRAND for one more
    draws: list[tuple[Any, Any]] = [
        (state.random_sample(count, dtype=dtype), scipy.stats.uniform()),
        (state.standard_normal(count, dtype=dtype), scipy.stats.norm()),
        (state.normal(2.0, 3.0, count, dtype=dtype), scipy.stats.norm(2, 3)),
        (state.lognormal(0.5, 0.25, count, dtype=dtype), scipy.stats.lognorm(s=0.25, scale=np.exp(0.5))),
    ]
    for drawn, distribution in draws:
        assert drawn.dtype == dtype
        assert scipy.stats.kstest(drawn.get(), distribution.cdf).pvalue > 1e-3
        pairs = drawn.get()[: count // 2 * 2].reshape(-1, 2)
        assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.03


@pytest.mark.parametrize("mean", [0.5, 9.0, 400.0])
def test_poisson(mean: float) -> None:
    from cupy_backends.cuda.libs import curand

    generator = curand.createGenerator(PHILOX)
    out = cupy.empty(20_000, np.uint32)
    curand.generatePoisson(generator, out.data.ptr, out.size, mean)
    curand.destroyGenerator(generator)
    drawn = out.get()
    assert abs(drawn.mean() - mean) < 5 * np.sqrt(mean / drawn.size)
    assert abs(drawn.var() / mean - 1) < 0.06


def test_integers_and_permutations() -> None:
    state = cupy.random.RandomState(3, method=PHILOX)
    drawn = state.randint(-2, 5, 20_000).get()
    np.testing.assert_allclose(np.bincount(drawn + 2) / drawn.size, 1 / 7, atol=0.02)
    np.testing.assert_array_equal(np.sort(state.permutation(100).get()), np.arange(100))


def test_what_curand_refuses() -> None:
    from cupy_backends.cuda.libs import curand

    generator = curand.createGenerator(PHILOX)
    out = cupy.empty(5)
    with pytest.raises(curand.CURANDError, match="TYPE_ERROR"):
        curand.generateLongLong(generator, out.data.ptr, 4)
    with pytest.raises(curand.CURANDError, match="TYPE_ERROR"):
        curand.createGenerator(142)  # Mersenne Twister
    curand.destroyGenerator(generator)
