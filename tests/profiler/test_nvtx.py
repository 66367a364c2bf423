"""``emit_nvtx`` against the real NVTX interface: programs run under a recording library that NVTX itself loads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import gradlib
from gradlib.autograd.profiler import emit_nvtx, record_function
from tests.profiler.recorder import Recording, record


def test_exact_labels_and_nesting_of_both_passes(tmp_path: Path) -> None:
    got = record(
        """
        x = gradlib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with emit_nvtx():
            with record_function("step"):
                y = (x * 2.0).sin().sum()
                with record_function("backward", "first"):
                    y.backward()
        print(y.grad_fn._sequence_nr())
        """,
        tmp_path,
    )
    n = int(got.printed) - 2
    (step,) = got.outermost
    assert step.label == "step"
    assert [r.label for r in step.inside] == [f"mul, seq = {n}", f"sin, seq = {n + 1}", f"sum, seq = {n + 2}", "backward, first"]
    assert [r.label for r in step.inside[-1].inside] == [
        f"SumBackward0, stashed seq = {n + 2}, seq = {n + 3}",
        f"SinBackward0, stashed seq = {n + 1}, seq = {n + 4}",
        f"MulBackward0, stashed seq = {n}, seq = {n + 5}",
        f"AccumulateGrad, seq = {n + 6}",
    ]
    assert len(got.all()) == 9


def test_labels_hold_shapes_of_operands(tmp_path: Path) -> None:
    got = record(
        """
        x = gradlib.zeros(2, 3, requires_grad=True)
        with emit_nvtx(record_shapes=True):
            y = gradlib.cat([x, x * 2.0]).sum()
            y.backward()
        """,
        tmp_path,
    )
    labels = [r.label.partition(", sizes = ")[::2] for r in got.all()]
    assert [(name.partition(",")[0], sizes) for name, sizes in labels] == [
        ("mul", "[[2, 3], []]"),
        ("cat", "[[[2, 3], [2, 3]], []]"),
        ("sum", "[[4, 3], [], [], []]"),
        ("SumBackward0", "[[]]"),
        ("CatBackward0", "[[4, 3]]"),
        ("MulBackward0", "[[2, 3]]"),
        ("AccumulateGrad", "[[2, 3]]"),
    ]


def paired(got: Recording) -> None:
    """Every node of backward names an operation of forward, of its own name, and no two operations share a number."""
    forward = {r.seq: r for r in got.all() if r.stashed is None and r.seq is not None and r.name != "AccumulateGrad"}
    assert len(forward) == sum(r.stashed is None and r.seq is not None and r.name != "AccumulateGrad" for r in got.all())
    backward = [r for r in got.all() if r.stashed is not None]
    assert backward
    for node in backward:
        made_by = forward[node.stashed].name
        names = "".join(part.capitalize() for part in made_by.split("_")) + "Backward0"
        assert node.name in (names, f"{made_by}Backward", "CopySlices"), (node.label, made_by)


def test_pairs_by_number_through_double_backward(tmp_path: Path) -> None:
    got = record(
        """
        x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        with emit_nvtx():
            y = (x * x.exp()).sum()
            (g,) = gradlib.autograd.grad(y, x, create_graph=True)
            with record_function("second"):
                g.sum().backward()
        """,
        tmp_path,
    )
    paired(got)
    within = [r for each in got.outermost if each.stashed is not None for r in each.all()[1:]]
    assert within, "operations inside backward are labelled too"
    for each in (r for r in got.outermost if r.stashed is not None):
        assert all(each.seq < r.seq for r in each.all()[1:]), "what a node records has numbers above its own seq"
    second = next(r for r in got.outermost if r.name == "second")
    made_in_backward = {r.seq for r in within}
    assert made_in_backward & {r.stashed for r in second.all()}, "the second backward runs nodes that the first one made"


def test_writes_into_views_pair_with_the_write(tmp_path: Path) -> None:
    got = record(
        """
        x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        with emit_nvtx():
            y = x * 2
            y[0].mul_(3)
            y.sum().backward()
        """,
        tmp_path,
    )
    paired(got)
    assert {"CopySlices", "MulBackward0"} <= {r.name for r in got.all()}


def test_numbers_are_those_of_the_nodes_also_on_the_general_path(tmp_path: Path) -> None:
    """Mixed dtypes, several outputs, lists of tensors and raw arrays go another way than the plain one."""
    got = record(
        """
        x = gradlib.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
        with emit_nvtx():
            made = [
                x * gradlib.tensor([2, 3, 4]),
                gradlib.stack([x, x]),
                x.max(1).values,
                x + np.ones(3, np.float32),
                2 / x,
                x[:, 1:],
            ]
            for y in made:
                y.sum().backward()
        for y in made:
            node = y.grad_fn
            print(node.name().removesuffix("Backward0").lower(), node._sequence_nr())
        """,
        tmp_path,
    )
    paired(got)
    labels = {(r.name.replace("_", ""), r.seq) for r in got.all()}
    for line in got.printed.splitlines():
        name, seq = line.split()
        assert (name, int(seq)) in labels


def test_custom_functions_and_trajectory_kernels_are_named(tmp_path: Path) -> None:
    got = record(
        """
        class Cube(gradlib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 3 * x * x

        from gradlib import trajectory
        u = gradlib.zeros(1, 8, 1, requires_grad=True)
        with emit_nvtx():
            motion = trajectory.step_acceleration(u, (gradlib.zeros(1, 1),), 0.05)
            Cube.apply(motion.position).sum().backward()
        """,
        tmp_path,
    )
    paired(got)
    names = [r.name for r in got.all()]
    assert names.count("Cube") == names.count("CubeBackward") == 1
    assert "step_acceleration" in names
    assert "StepAccelerationBackward0" in names
    cube = next(r for r in got.all() if r.name == "Cube")
    assert [r.label for r in cube.inside] == ["mul", "mul"], "inside forward nothing is recorded, so nothing has a number"


def test_ranges_close_after_exceptions(tmp_path: Path) -> None:
    """``record`` itself sees that every push has its pop."""
    got = record(
        """
        class Bad(gradlib.autograd.Function):
            @staticmethod
            def forward(ctx, x, where):
                ctx.where = where
                if where == "forward":
                    raise KeyError(where)
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                raise KeyError(ctx.where)

        def refuse(g):
            raise KeyError("hook")

        def fails(kind, run):
            try:
                run()
            except kind:
                return
            raise AssertionError("nothing raised")

        x = gradlib.ones(3, requires_grad=True)
        with emit_nvtx():
            fails(RuntimeError, lambda: x + gradlib.ones(4))
            fails(TypeError, lambda: gradlib.cat([x, "text"]))
            fails(KeyError, lambda: Bad.apply(x, "forward"))
            fails(KeyError, lambda: Bad.apply(x, "backward").sum().backward())
            y = x * 2
            y.register_hook(refuse)
            fails(KeyError, lambda: y.sum().backward())
            with record_function("last"):
                x + 1
        try:
            with emit_nvtx(), record_function("outer"):
                raise KeyError("user")
        except KeyError:
            pass
        x + 1
        """,
        tmp_path,
    )
    names = [r.name for r in got.outermost]
    assert names[:4] == ["add", "cat", "Bad", "Bad"]
    assert "BadBackward" in names
    assert names[-2:] == ["last", "outer"], "after the exceptions ranges lie outermost again, and none follows"
    assert [r.name for r in got.outermost[-2].inside] == ["add"]


def test_threads_that_enter_it_have_ranges_of_their_own(tmp_path: Path) -> None:
    got = record(
        """
        ready = threading.Barrier(4)
        def work(name):
            x = gradlib.ones(2, requires_grad=True)
            ready.wait()
            with record_function(name):
                for _ in range(50):
                    (x * 2).sum().backward()

        def own(name):
            with emit_nvtx():
                work(name)

        with emit_nvtx():
            threads = [threading.Thread(target=t, args=(f"t{i}",)) for i, t in enumerate([work, own, own])]
            for t in threads: t.start()
            work("main")
            for t in threads: t.join()
        """,
        tmp_path,
    )
    paired(got)
    assert sorted(r.label for thread in got.threads.values() for r in thread) == ["main", "t1", "t2"], "t0 entered none"
    for thread in got.threads.values():
        (step,) = thread
        assert len(step.inside) == 5 * 50
        assert all(r.thread == step.thread for r in step.all())


def test_retained_graph_names_the_same_numbers_twice_and_handles_are_kept(tmp_path: Path) -> None:
    got = record(
        """
        x = gradlib.ones(2, requires_grad=True)
        with emit_nvtx():
            y = (x * 2).sum()
            y.backward(retain_graph=True)
            y.backward()
            with gradlib.no_grad():
                for _ in range(100):
                    with record_function("again"):
                        x + 1
        """,
        tmp_path,
    )
    stashed = [r.stashed for r in got.all() if r.stashed is not None]
    assert stashed[:2] == stashed[2:]
    assert sum(r.label == "again" for r in got.all()) == 100
    assert got.registered.count("again") == 1
    assert got.registered.count("add") == 1


def test_forward_mode_and_checkpointed_modes_keep_pairing(tmp_path: Path) -> None:
    got = record(
        """
        from gradlib.autograd import forward_ad as fwad
        x = gradlib.ones(2, requires_grad=True)
        with emit_nvtx(), fwad.dual_level():
            y = (fwad.make_dual(x, gradlib.ones(2)) * 3).sin()
            tangent = fwad.unpack_dual(y).tangent
            tangent.sum().backward()
        assert np.allclose(np.asarray(x.grad), -9 * np.sin(3.0))
        with emit_nvtx(), gradlib.inference_mode():
            assert (x * 2).is_inference()
        """,
        tmp_path,
    )
    paired(got)
    assert got.outermost[-1].label == "mul"


def test_nothing_is_emitted_when_disabled_or_left(tmp_path: Path) -> None:
    got = record(
        """
        x = gradlib.ones(2, requires_grad=True)
        with emit_nvtx(enabled=False), record_function("a"):
            (x * 2).sum().backward()
        with emit_nvtx():
            pass
        with record_function("b"):
            (x * 2).sum().backward()
        """,
        tmp_path,
    )
    assert got.threads == {}


def test_profiler_that_knows_no_extension_records_too(tmp_path: Path) -> None:
    """Nsight Systems up to 2023: the nvtx package believes that nobody listens."""
    got = record(
        """
        import nvtx
        print(type(nvtx.get_domain("gradlib")).__name__)
        x = gradlib.ones(2, requires_grad=True)
        with emit_nvtx(), record_function("step"):
            (x * 2).sum().backward()
        """,
        tmp_path,
        refuses=True,
    )
    assert got.printed == "DummyDomain\n"
    assert got.shape() == ["step", "  mul", "  sum", "  SumBackward0", "  MulBackward0", "  AccumulateGrad"]
    paired(got)


def test_without_a_profiler_nothing_stays_behind() -> None:
    context = emit_nvtx()
    x = gradlib.ones(2, requires_grad=True)
    for _ in range(2):
        with context, record_function("a"):
            (x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_entering_twice_is_refused() -> None:
    context = emit_nvtx()
    with context:
        with pytest.raises(RuntimeError, match="not reentrant"):
            context.__enter__()
        with pytest.raises(RuntimeError, match="already enabled"):
            emit_nvtx().__enter__()
        other: list[str] = []

        def elsewhere() -> None:
            with emit_nvtx():
                other.append("entered")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert other == ["entered"]


def test_record_function_decorates() -> None:
    @record_function("work")
    def double(x: int) -> int:
        return 2 * x

    with emit_nvtx():
        assert double(4) == 8
    assert double.__name__ == "double"
