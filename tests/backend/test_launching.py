"""How the arguments of gradlib's own kernels are packed: as their texts declare the parameters."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence

import pytest

from gradlib.backend.launching import Slots, formats_of

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
struct Groups { unsigned size[3], apart[4]; double by[2]; };
extern "C" __global__ void gradlib_grouped(float by, Groups first, bool own, Groups second) { }
extern "C" __global__ void gradlib_half(const float16* x, half h) { }
"""


@pytest.mark.host
def test_the_parameters_of_a_kernel_are_packed_as_its_text_declares_them() -> None:
    """A kernel's name may begin another's; types may have other names; a structure is packed as its members."""
    assert formats_of(TEXT, "scale_all") == ["P", "P", "d", "I"]
    assert formats_of(TEXT, "scale") == ["PIIq", "Pii", "B", "?", "Q"]
    assert formats_of(TEXT, "grouped") == ["f", "IIIIIIIdd", "?", "IIIIIIIdd"]
    with pytest.raises(KeyError, match="half"):
        formats_of(TEXT, "half")
    with pytest.raises(ValueError, match="substring not found"):
        formats_of(TEXT, "sca")


@pytest.mark.host
@pytest.mark.parametrize("formats", [["f", "III", "B", "III"], ["B", "Pii", "d"], ["H", "BB", "Hq", "I", "B"], "PfII", ["B", "BBB", "HI"]])
def test_a_structure_begins_where_its_widest_member_may(formats: Sequence[str]) -> None:
    slots, values = Slots(formats), iter(range(1, 100))
    memory, begins = slots.made()
    packed = [[next(values) for _ in each] for each in formats]
    slots.pack(memory, 0, *itertools.chain(*packed))
    places = (ctypes.c_void_p * len(formats)).from_address(begins)
    for each, place, expected in zip(formats, places, packed, strict=True):
        assert place % max(map(struct.calcsize, each)) == ctypes.addressof(memory) % 8 == 0
        assert list(struct.unpack(each, ctypes.string_at(place, struct.calcsize(each)))) == expected
