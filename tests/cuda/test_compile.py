"""NVRTC compiles every kernel, which needs no GPU: for every architecture, and for 9.0 with every set of options, without spills."""

from __future__ import annotations

import re
from importlib import metadata
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from gradlib.backend import (
    classes,
    copying,
    elimination,
    folding,
    formulas,
    integrals,
    line_slopes,
    marked,
    matrices,
    moments,
    neighbours,
    pairs,
    placing,
    pointwise_text,
    reducing,
    reflections,
    rotations,
    scanning,
    searching,
    several,
    singular,
    slopes,
    sorting,
    spaced,
)  # fmt: skip
from gradlib.core.symbols import Symbol, Trace
from gradlib.cuda import nvrtc
from gradlib.cuda.signature import Options
from gradlib.cuda.source import CompileError, kernel_files, read_source
from gradlib.optim.steps import STEPS
from gradlib.trajectory.kernel_options import VARIANTS
from tests import shim
from tests.shim.kept import ptx_and_report

SOURCES = [name for name in kernel_files() if name.endswith(".cu")]
STORAGE = ["float", "double", "half_t", "bfloat16_t"]


def architectures() -> list[int]:
    """What this NVRTC compiles for and CuPy 14 runs on: compute capability 5.0 and up."""
    try:
        return [a for a in nvrtc.architectures() if a >= 50]
    except Exception:  # no CuPy, or its wheel is there but the NVRTC library is not
        return []


ARCHITECTURES = architectures()


def test_every_source_has_variants():
    assert set(VARIANTS) >= set(SOURCES)


def test_nvrtc_is_found_where_it_is_installed():
    """Otherwise the tests below would skip, and nobody would know that the kernels went unchecked."""
    installed = {distribution.name for distribution in metadata.distributions()}
    assert ARCHITECTURES or not installed >= {"cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"}


def compiled_for(architecture: int) -> list[str]:
    """All sources for the oldest and the newest; of the others one each, in turn.

    For 9.0 the test below compiles all sources, with all options: the same texts as for 8.0, where the newer of them begin.
    """
    place = ARCHITECTURES.index(architecture)
    everything = {ARCHITECTURES[0], ARCHITECTURES[-1]}
    return SOURCES if architecture in everything else [SOURCES[place % len(SOURCES)]]


def test_the_kernels_texts_divide_at_one_architecture():
    texts = "".join(read_source(name) for name in kernel_files())
    assert set(re.findall(r"__CUDA_ARCH__ *[<>=!]+ *(\w+)", texts)) == {"800"}


@pytest.mark.skipif(not ARCHITECTURES, reason="no NVRTC: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12")
@pytest.mark.parametrize("architecture", ARCHITECTURES or [0])
@pytest.mark.slow
def test_nvrtc_compiles_for_every_architecture(architecture):
    storage = STORAGE[ARCHITECTURES.index(architecture) % 4]
    for source in compiled_for(architecture):
        options = ([o for o in VARIANTS[source] if dict(o)["STORAGE"] == storage] or VARIANTS[source])[-1]
        ptx = nvrtc.ptx(source, options, architecture)
        for kernel in shim.kernel_names(source):
            assert re.search(rf"\.entry {kernel}\b", ptx)
        if architecture >= 80 and "tile.cuh" in read_source(source):
            check_asynchronous_copies(ptx, storage)


def sets_of_options() -> list[tuple[str, Options]]:
    """All of each source, but where there are many of the half types one in turn: their kernels differ in conversions alone.

    In turn by the number of ones in its binary number, so that each value of an option meets both. hostcuda compiles each with both.
    """
    chosen = []
    for source in SOURCES:
        of_halves = sorted({options[1:] for options in VARIANTS[source] if options[0][1] == STORAGE[2]})
        for others in sorted({options[1:] for options in VARIANTS[source]}):
            alike = len(others) > 1 and others in of_halves
            left_out = STORAGE[2 + of_halves.index(others).bit_count() % 2] if alike else None
            chosen += [(source, options) for options in VARIANTS[source] if options[1:] == others and options[0][1] != left_out]
    return chosen


def test_of_the_half_types_each_value_of_an_option_meets_both():
    met = {(source, options[0][1], option) for source, options in sets_of_options() for option in options[1:]}
    every = {(source, options[0][1], option) for source in SOURCES for options in VARIANTS[source] for option in options[1:]}
    assert met == every


SPILLS = {(100, "bspline_forward", f"{storage}_int_5_4"): 8 for storage in ("half_t", "bfloat16_t")}
"""The bytes that NVRTC 12.9 moves through local memory where launch bounds leave a kernel too few registers, here by two of 80. With more
registers a third fewer threads would be there to wait in turn, of a kernel that computes rather than moves."""

CHECKED = [a for a in (90, 100) if a in ARCHITECTURES] or ARCHITECTURES[-1:] or [0]
"""For which no set of options may need local memory: Hopper and Blackwell, for which the assembler gives registers out differently."""


def value_pairs(source: str, options: Options) -> set[tuple[Any, ...]]:
    """Each two options of a set with their values."""
    return {(source, *two) for two in combinations(options, 2)}


def sets_in_which_pairs_meet() -> list[tuple[str, Options]]:
    """Of the sets above those in which each two values of options meet that meet in any: one after the other that with most new ones."""
    every, chosen = sets_of_options(), list[tuple[str, Options]]()
    left = set().union(*(value_pairs(*each) for each in every))
    while left:
        chosen.append(max(every, key=lambda each: len(left & value_pairs(*each))))
        left -= value_pairs(*chosen[-1])
    return chosen


COMPILED = [(*each, a) for a in CHECKED for each in (sets_of_options() if a == CHECKED[0] else sets_in_which_pairs_meet())]
"""What the test below compiles: for the first architecture every set. The other differs in the assembler alone."""


@pytest.mark.slow
@pytest.mark.skipif(not ARCHITECTURES, reason="no NVRTC: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12")
@pytest.mark.parametrize(
    ("source", "options", "architecture"), COMPILED, ids=lambda x: shim.variant_name(x) if isinstance(x, tuple) else str(x)
)
def test_nvrtc_compiles_every_set_of_options_without_spills(source, options, architecture):
    ptx, report = ptx_and_report(source, options, architecture)
    kernels = shim.kernel_names(source)
    assert all(re.search(rf"\.entry {kernel}\b", ptx) for kernel in kernels)
    if ARCHITECTURES[-1] >= 80 and "tile.cuh" in read_source(source):
        check_asynchronous_copies(ptx, dict(options)["STORAGE"], int(dict(options).get("AHEAD", 0)))
    found = re.findall(r"properties for (\w+)\D+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert {kernel for kernel, *_ in found} == set(kernels)
    for kernel, *local in found:
        assert max(map(int, local)) <= SPILLS.get((architecture, kernel, shim.variant_name(options)), 0)


def check_asynchronous_copies(ptx: str, storage: str, ahead: int = 0) -> None:
    """They are of 16 bytes and of a word, and awaited before the threads meet, but for those of the chunk ``ahead``, which are under way
    when these meet after a walk; only a GPU runs these lines."""
    sizes = {"8", "16"} if storage == "double" else {"4", "16"}
    found, under_way, met = set(), False, 0
    for size, word in re.findall(r"cp\.async\.ca\S* \[.*\], (\d+);|(cp\.async\.wait_all|bar\.sync)", ptx):
        met += word == "bar.sync" and under_way
        under_way = word == ""
        found |= {size} - {""}
    assert found == sizes
    assert met == ahead


def loops(ptx: str, kernel: str) -> list[list[str]]:
    """The instructions of each innermost loop of a kernel."""
    text = re.split(r"\.entry ", ptx.partition(f".entry {kernel}(")[2])[0]
    lines, labels = [], {}
    for line in map(str.strip, text.splitlines()):
        if label := re.match(r"(\$L\w+):", line):
            labels[label[1]] = len(lines)
        elif line.endswith(";") and not line.startswith("."):
            lines.append(re.sub(r"^@!?%p\d+\s+", "", line))
    ends = [(labels[m[1]], i) for i, line in enumerate(lines) if (m := re.match(r"bra(?:\.uni)?\s+(\$L\w+);", line)) and labels[m[1]] <= i]
    return [lines[a : b + 1] for a, b in ends if not any(a <= c and d <= b and (c, d) != (a, b) for c, d in ends)]


@pytest.mark.skipif(max(ARCHITECTURES, default=0) < 90, reason="no NVRTC for 9.0")
@pytest.mark.parametrize("storage", ["float", "bfloat16_t"])
def test_instructions_of_the_chain(storage):
    """What kernels/README.md counts: of the walk over four steps, and no division but one for each step of a trajectory's times."""
    options = (("STORAGE", storage), ("INDEX", "int"), ("ORDER", "2"), ("EXACT", "0"), ("SOURCES", "0"), ("AHEAD", "0"), ("OUTPUTS", "1"))
    found = loops(ptx_and_report("chain.cu", options)[0], "chain_forward")
    walks = [x for x in found if sum("st.shared" in line for line in x) == 16]
    assert len(walks) == 2  # with times of each step, and without
    assert max(map(len, walks)) <= (119 if storage == "float" else 148)
    assert not [line for x in walks for line in x if re.match(r"(div|rcp)\b", line)]
    assert sum(line.startswith("rcp") for x in found for line in x) == 1
    moving = [x for x in found if any(re.search(r"cp\.async|[ls][dt]\.global\.(v4|[fu])", line) for line in x)]
    assert not [line for x in moving for line in x if line.startswith(("div", "rem")) and not any(i.startswith("rcp") for i in x)]
    if storage == "bfloat16_t":
        assert all(sum("cvt.rn.bf16.f32" in line for line in x) == 16 for x in walks)


@pytest.mark.skipif(not ARCHITECTURES, reason="no NVRTC: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12")
def test_nvrtc_reports_an_error():
    with pytest.raises(CompileError, match="STORAGE"):
        nvrtc.ptx("rows.cu", (), ARCHITECTURES[0])


SMALL = {
    "pointwise": pointwise_text.source("f"), "pointwise, stretched": pointwise_text.stretched_source("l"),
    "complex": formulas.complex_source("d", "vb"), "arange": spaced.arange_source("d"), "reducing": reducing.source("d", False),
    "copying": copying.source(4), "sorting": sorting.source("d"), "searching": searching.source("f"),
    "matrices": matrices.source("F"), "triangles": matrices.part_source(16), "rotations": rotations.source("F"),
    "elimination": elimination.source("f"), "elimination, complex": elimination.source("D"),
    "singular": singular.source("f"), "singular, complex": singular.source("D"),
    "reflections": reflections.source("F"), "slopes": slopes.source("d"), "slopes, complex": slopes.source("F"),
    "integers": pointwise_text.source("l"), "int32": pointwise_text.source("i"), "bools": pointwise_text.source("?"),
    "float64": pointwise_text.source("d"),
    "placing": placing.source("l"), "placing, int32": placing.source("i"),
    "marked": marked.source(4), "marked bytes": marked.source(1),
    "folding": folding.source("f", "l"), "folding, float64": folding.source("d", "i"), "folding, integers": folding.source("l", "l"),
    "folding, bytes": folding.source("b", "i"), "folding, complex": folding.source("F", "l"),
    "scanning": scanning.source("f"), "scanning, float64": scanning.source("d"),
    "scanning, integers": scanning.source("l"), "reducing, float32": reducing.source("f", False), "classes": classes.source("f"),
    "integrals": integrals.source("f"), "neighbours": neighbours.source("f"), "neighbours, integers": neighbours.source("l"),
    "pairs": pairs.source("f"), "pairs, float64": pairs.source("d"), "parts": pointwise_text.source("F"),
    "line_slopes": line_slopes.source("f", False), "line_slopes, float64": line_slopes.source("d", False),
    "moments": moments.source("f", False), "moments, float64": moments.source("d", False),
    "reducing, strided": reducing.source("f", True), "line_slopes, strided": line_slopes.source("f", True),
    "moments, strided": moments.source("d", True),
    "linspace": spaced.linspace_source("f"), "linspace, integers": spaced.linspace_source("l"),
}  # fmt: skip
SMALL |= {each.name: each.source("f") for each in (*several.WRITING.values(), *several.NORMS.values())}
for _name, _step in STEPS.items():
    SMALL |= {f"step of {_name}": _step.apart.source("df"), f"step of {_name}, joined": _step.joined.source("f")}
    SMALL |= {f"counts of {_name}": _step.counting.source("fd")} if _step.is_counted else {}
SMALL |= {f"close, {char}": formulas.close_source(char, "ww") for char in "fl"}
SMALL |= {f"sum of {each}": formulas.sum_source(each, "f") for each in formulas.SUMS}
SMALL |= {"sum of smooth, weights": formulas.sum_source("smooth", "d", True, True), "shares": classes.source_of_shares("f")}
_trace = Trace(np.dtype("float32"))
_a, _m, _b = Symbol(_trace, "a0", False), Symbol(_trace, "m1", True), Symbol(_trace, "a2", False)
_rule = -(_a * (_a / _b / 2.5)) + abs(_b) * (_m & (_a > 0.5))
SMALL["a rule"] = _trace.source(_rule, {"a0": "v", "m1": "b", "a2": "b"})
for _name, (_operands, _) in formulas.FORMULAS.items():
    _kinds = "".join("v" if each in "gxyw" else "n" for each in _operands.split())
    SMALL |= {_name: formulas.source(_name, "f", _kinds), f"{_name}, broadcast": formulas.source(_name, "d", _kinds.replace("v", "b"))}


@pytest.mark.skipif(not ARCHITECTURES, reason="no NVRTC")
@pytest.mark.parametrize("name", SMALL)
def test_nvrtc_compiles_the_kernels_of_small_operations(name: str) -> None:
    """Those of half types need CUDA's headers, which NVRTC's wheel has not."""
    library = nvrtc._bindings()
    program = library.createProgram(SMALL[name], name, (), ())
    library.compileProgram(program, ("--std=c++17", f"--gpu-architecture=compute_{ARCHITECTURES[-1]}"))
    assert "gradlib_" in library.getPTX(program).decode()
    library.destroyProgram(program)


@pytest.mark.slow
@pytest.mark.skipif(90 not in ARCHITECTURES, reason="no NVRTC for 9.0")
@pytest.mark.parametrize(
    "module", [elimination, reflections, rotations, singular, slopes], ids=lambda each: each.__name__.rpartition(".")[2]
)
def test_nvrtc_compiles_the_kernels_of_small_matrices_without_spills(module: Any) -> None:
    library = nvrtc._bindings()
    program = library.createProgram(module.source("D"), "matrices", (), ())
    library.compileProgram(program, ("--std=c++17", "--gpu-architecture=sm_90", "--ptxas-options=-v"))
    found = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", library.getProgramLog(program))
    assert found
    assert {number for local in found for number in local} == {"0"}
    library.destroyProgram(program)
