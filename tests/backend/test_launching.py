"""How the arguments of gradlib's own kernels are packed: as their texts declare the parameters."""

from __future__ import annotations

import pytest

from gradlib.backend.launching import formats_of

TEXT = """
typedef double E;
typedef E T;
struct View { const T* at; int by_row, by_column; };
struct Lines {
    const unsigned* places;
    unsigned count, inner;
    long long step;

    __device__ int at(int i) const { return places[i]; }
};
extern "C" __global__ void gradlib_scale_all(const E* x, E* z, T by, unsigned n) { }
extern "C" __global__ void gradlib_scale(Lines lines, View x, const unsigned char value,
    bool own, unsigned long long seed) { }
extern "C" __global__ void gradlib_half(const float16* x, half h) { }
"""


@pytest.mark.host
def test_the_parameters_of_a_kernel_are_packed_as_its_text_declares_them() -> None:
    """A kernel's name may begin another's; types may have other names; a structure is packed as its members."""
    assert formats_of(TEXT, "scale_all") == ["P", "P", "d", "I"]
    assert formats_of(TEXT, "scale") == ["PIIq", "Pii", "B", "?", "Q"]
    with pytest.raises(KeyError, match="half"):
        formats_of(TEXT, "half")
    with pytest.raises(ValueError, match="substring not found"):
        formats_of(TEXT, "sca")
