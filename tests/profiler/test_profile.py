"""``profile``: what it records, and the tables, traces and stacks that are made of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradlib
from gradlib import trajectory
from gradlib.autograd.profiler import EventList, FunctionEvent, emit_nvtx, profile, record_function
from gradlib.autograd.profiler.table import build_table, bytes_text, flops_text, sides, time_text


def two_layers(**options: Any) -> profile:
    x = gradlib.ones(3, 4, requires_grad=True)
    w = gradlib.ones(4, 5, requires_grad=True)
    with profile(**options) as found:
        with record_function("mine"):
            y = (x @ w).relu().sum()
        y.backward()
    return found


def names(events: list[FunctionEvent]) -> list[str]:
    return [e.name for e in events]


def test_events_nest_and_both_passes_share_numbers() -> None:
    events = two_layers().function_events
    mine = events[0]
    assert names(events) == [
        "mine", "matmul", "relu", "sum", "SumBackward0", "ReluBackward0", "MatmulBackward0", "AccumulateGrad", "AccumulateGrad",
    ]  # fmt: skip
    assert names(mine.cpu_children) == ["matmul", "relu", "sum"]
    assert all(e.cpu_parent is None for e in events[4:])
    forward, backward = {e.name: e for e in events[1:4]}, {e.name: e for e in events[4:7]}
    for name in ("matmul", "relu", "sum"):
        node = backward[f"{name.capitalize()}Backward0"]
        assert node.stashed == forward[name].seq == forward[name].sequence_nr == node.sequence_nr
        assert forward[name].backward == [node]
    assert events[-1].sequence_nr == -1


def test_times_add_up() -> None:
    found = two_layers()
    events = found.function_events
    mine = events[0]
    inner = sum(e.cpu_time_total for e in events[1:4])
    assert 0 < inner < mine.cpu_time_total
    assert mine.self_cpu_time_total == pytest.approx(mine.cpu_time_total - inner)
    outermost = sum(e.cpu_time_total for e in events if e.cpu_parent is None)
    assert found.self_cpu_time_total == pytest.approx(outermost)
    total = found.total_average()
    assert total.key == "Total"
    assert total.count == len(events)
    assert total.cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in events))


def test_shapes_flops_and_bytes() -> None:
    events = {e.name: e for e in two_layers(record_shapes=True, with_flops=True, profile_memory=True).function_events}
    assert events["matmul"].input_shapes == [[3, 4], [4, 5]]
    assert events["MatmulBackward0"].input_shapes == [[3, 5]]
    assert events["matmul"].flops == 2 * 3 * 4 * 5
    assert events["MatmulBackward0"].flops == 2 * events["matmul"].flops, "a product for each of two gradients"
    assert events["relu"].flops == 0
    assert events["matmul"].cpu_memory_usage == 3 * 5 * 4
    assert events["MatmulBackward0"].cpu_memory_usage == (3 * 4 + 4 * 5) * 4
    assert events["mine"].cpu_memory_usage == (15 + 15 + 1) * 4
    assert events["mine"].self_cpu_memory_usage == 0


def test_views_allocate_nothing() -> None:
    x = gradlib.ones(4, 4)
    with profile(profile_memory=True) as found:
        x.t()
        x[1:]
        x + 1
    assert [e.cpu_memory_usage for e in found.function_events] == [0, 0, 64]


def test_flops_of_linear_and_trajectories() -> None:
    u = gradlib.zeros(2, 8, 3, requires_grad=True)
    with profile(with_flops=True) as found:
        gradlib.nn.functional.linear(gradlib.ones(6, 4), gradlib.ones(5, 4), gradlib.ones(5))
        gradlib.einsum("bij,bkj->kb", gradlib.ones(2, 3, 4), gradlib.ones(2, 5, 4))
        motion = trajectory.step_acceleration(u, (gradlib.zeros(2, 3),), 0.05)
        motion.position.sum().backward()
    events = {e.name: e for e in found.function_events}
    assert events["linear"].flops == 6 * 5 * (2 * 4 + 1)
    assert events["contract"].flops == 2 * 2 * 4 * 5, "einsum has summed over i before"
    outputs = sum(x.numel() for x in (motion.position, motion.velocity, motion.acceleration, motion.jerk))
    assert events["step_acceleration"].flops == 2 * outputs
    assert events["StepAccelerationBackward0"].flops == 2 * outputs


def test_key_averages_group_by_name_shape_and_stack() -> None:
    x, y = gradlib.ones(2), gradlib.ones(3)
    with profile(record_shapes=True, with_stack=True) as found:
        for _ in range(2):
            x + x
        y + y
    (add,) = found.key_averages()
    assert (add.key, add.count) == ("add", 3)
    assert add.cpu_time == pytest.approx(add.cpu_time_total / 3)
    assert [(a.input_shapes[:2], a.count) for a in found.key_averages(group_by_input_shape=True)] == [([[2], [2]], 2), ([[3], [3]], 1)]
    by_line = found.key_averages(group_by_stack_n=1)
    assert [a.count for a in by_line] == [2, 1]
    assert all(a.stack[0].startswith(f"{__file__}(") for a in by_line)


def test_table_is_sorted_limited_and_has_the_asked_columns() -> None:
    found = two_layers(record_shapes=True, with_flops=True, profile_memory=True)
    text = found.key_averages().table(sort_by="count", row_limit=2, header="as measured")
    lines = text.splitlines()
    assert lines[0] == "as measured"
    assert len([line for line in lines if "Backward0" in line or "Accumulate" in line or line.startswith("matmul")]) <= 2
    assert lines[4].startswith("AccumulateGrad")
    for heading in ("Self CPU %", "CPU total", "CPU time avg", "CPU Mem", "# of Calls", "Total FLOPs"):
        assert heading in lines[2]
    assert "CUDA" not in text
    assert "Input Shapes" not in lines[2]
    assert "Input Shapes" in found.key_averages(group_by_input_shape=True).table()
    assert "mine" in found.table(top_level_events_only=True)
    assert "matmul " not in found.table(top_level_events_only=True)
    with pytest.raises(ValueError, match="sort_by is one of"):
        found.table(sort_by="colour")


def test_units_of_times_bytes_and_flops() -> None:
    assert [time_text(t) for t in (0.5, 1500.0, 2.5e6)] == ["0.500us", "1.500ms", "2.500s"]
    assert [bytes_text(b) for b in (12, 2048, -3 << 20, 5 << 30)] == ["12 B", "2.00 KB", "-3.00 MB", "5.00 GB"]
    assert [flops_text(f) for f in (0, 12, 1500, 2e9)] == ["--", "12 FLOP", "1.500 KFLOP", "2.000 GFLOP"]
    assert build_table(EventList(), None, 10, None, False).splitlines()[1].startswith("Name")


def test_sides_put_backward_on_the_operation_that_caused_it() -> None:
    x = gradlib.ones(3, requires_grad=True)
    with profile() as found:
        y = (x * x * x).sum()
        (g,) = gradlib.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
    rows = {row.name: row for row in sides(found.function_events)}
    events = found.function_events
    muls = [e for e in events if e.name == "mul" and (e.cpu_parent is None)]
    assert rows["mul"].calls == len(muls) == 2
    assert {run.name for e in muls for run in e.backward} >= {"MulBackward0"}
    second = [e for e in events if e.kind == "node" and e.start > max(m.end for m in muls)]
    on_muls = {id(run) for e in muls for run in e.backward}
    assert sum(id(e) in on_muls for e in second if e.name == "MulBackward0") == sum(e.name == "MulBackward0" for e in second)


def test_chrome_trace_has_threads_nesting_and_arrows(tmp_path: Path) -> None:
    x = gradlib.ones(3, requires_grad=True)
    with profile(record_shapes=True) as found:
        y = x * 2
    other = profile()

    def elsewhere() -> None:
        with other, record_function("elsewhere"):
            y.sum().backward()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    both = [*found.function_events, *other.function_events]
    EventList(
        FunctionEvent(i, e.name, e.start, e.end, e.thread, e.kind, e.seq, e.stashed, e.input_shapes) for i, e in enumerate(both)
    ).export_chrome_trace(tmp_path / "trace.json")
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    work = {e["name"]: e for e in entries if e["ph"] == "X"}
    threads = {e["tid"] for e in entries if e["ph"] == "M" and e["name"] == "thread_name"}
    assert threads == {work["mul"]["tid"], work["elsewhere"]["tid"]}
    assert len(threads) == 2
    outer, inner = work["elsewhere"], work["MulBackward0"]
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    starts = {e["id"]: e for e in entries if e["ph"] == "s"}
    ends = {e["id"]: e for e in entries if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    arrows = {(starts[k]["ts"], starts[k]["tid"]): (ends[k]["ts"], ends[k]["tid"]) for k in starts}
    assert arrows[work["mul"]["ts"], work["mul"]["tid"]] == (inner["ts"], inner["tid"])
    slices = [e for e in entries if e["ph"] == "X"]
    for e in slices:  # what Perfetto demands: numbers as ids, slices of a thread nest, an arrow's end lies in a slice
        assert isinstance(e["pid"], int)
        for other in slices:
            if other["tid"] == e["tid"] and e["ts"] < other["ts"] < e["ts"] + e["dur"]:
                assert other["ts"] + other["dur"] <= e["ts"] + e["dur"]
    for end in (*starts.values(), *ends.values()):
        assert any(e["tid"] == end["tid"] and e["ts"] <= end["ts"] <= e["ts"] + e["dur"] for e in slices)
    assert work["mul"]["args"]["Sequence number"] == inner["args"]["Sequence number"]
    assert work["mul"]["args"]["Input Dims"] == [[3], []]


def test_stacks_lead_to_the_line_also_from_backward(tmp_path: Path) -> None:
    x = gradlib.ones(1000, requires_grad=True)

    def made_here() -> gradlib.Tensor:
        return x * 2

    with profile(with_stack=True) as found:
        y = made_here().sum()
        y.backward()
    node = next(e for e in found.function_events if e.name == "MulBackward0")
    assert node.stack[0] == f"{__file__}({made_here.__code__.co_firstlineno + 1}): made_here"
    assert not any("gradlib/core" in frame for frame in node.stack)
    found.export_stacks(tmp_path / "stacks")
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines
    for line in lines:
        frames, _, value = line.rpartition(" ")
        assert int(value) > 0
        assert " " not in frames
    with pytest.raises(ValueError, match="metric"):
        found.export_stacks(tmp_path / "stacks", "count")
    with pytest.raises(RuntimeError, match="with_stack"):
        two_layers().export_stacks(tmp_path / "stacks")


def test_events_of_work_that_raised_are_kept() -> None:
    with profile() as found, pytest.raises(RuntimeError):
        gradlib.ones(2) + gradlib.ones(3)
    assert names(found.function_events) == ["add"]


def test_a_profile_records_its_own_thread() -> None:
    """As torch's: neither what another thread runs nor the backward that it calls of what this one recorded."""
    x = gradlib.ones(2, requires_grad=True)
    with profile() as found:
        y = x * 2
        threads = [threading.Thread(target=work) for work in (lambda: x * 3, y.sum().backward)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names(found.function_events) == ["mul", "sum"]
    assert x.grad.tolist() == [2.0, 2.0]


def test_threads_have_profiles_of_their_own_without_loss() -> None:
    count, ready = 200, threading.Barrier(5)
    own: dict[int, profile] = {}

    def work() -> None:
        x = gradlib.ones(2, requires_grad=True)
        for _ in range(count):
            (x * 2).sum().backward()

    def alone(number: int) -> None:
        with profile() as mine:
            ready.wait()
            work()
        own[number] = mine

    def unseen() -> None:
        ready.wait()
        work()

    with profile() as found:
        threads = [threading.Thread(target=unseen) for _ in range(2)] + [threading.Thread(target=alone, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        ready.wait()
        work()
        for thread in threads:
            thread.join()
    each = [found, own[0], own[1]]
    assert [len(p.function_events) for p in each] == [5 * count] * 3
    assert [len({e.thread for e in p.function_events}) for p in each] == [1] * 3


def test_results_are_those_without_it() -> None:
    def program() -> list[float]:
        x = gradlib.arange(1, 4, dtype=gradlib.float32).requires_grad_()
        y = x * 2
        y[0].mul_(3)
        y.add_(x.exp())
        (g,) = gradlib.autograd.grad((y * y).sum(), x, create_graph=True)
        g.sum().backward()
        return x.grad.tolist()

    expected = program()
    with profile(record_shapes=True, with_flops=True, profile_memory=True, with_stack=True):
        assert program() == expected
    with profile(), gradlib.inference_mode():
        assert (gradlib.ones(2) * 2).is_inference()


def test_misuse_is_refused() -> None:
    with profile() as found:
        with pytest.raises(RuntimeError, match="didn't finish"):
            found.key_averages()
        with pytest.raises(RuntimeError, match="not reentrant"):
            found.__enter__()
        with pytest.raises(RuntimeError, match="already enabled"):
            emit_nvtx().__enter__()
    with pytest.raises(ValueError, match="use_device"):
        profile(use_device="tpu")


def test_a_disabled_profile_does_nothing() -> None:
    off = profile(enabled=False, use_device="tpu", use_cuda=True, use_cpu=False)
    with profile() as found:
        for _ in range(2):  # nothing says that it was entered before
            with off as given:
                assert given is None
                gradlib.ones(2) + 1
        with emit_nvtx(enabled=False) as ranges:
            assert ranges is None
    assert names(found.function_events) == ["add", "add"]
    with pytest.raises(RuntimeError, match="didn't finish"):
        off.table()
    assert str(off) == "<unfinished gradlib.autograd.profile>"


def test_torchs_keywords_are_accepted() -> None:
    x = gradlib.ones(2)
    with profile(
        with_modules=True, use_kineto=True, use_cpu=False, experimental_config=None, acc_events=True, custom_trace_id_callback=str,
        post_processing_timeout_s=1.0, activity_filters=None,
    ) as found:  # fmt: skip
        x * 2
    assert names(found.function_events) == ["mul"]
    with pytest.warns(FutureWarning, match="`use_cuda` will be deprecated"):
        assert profile(use_cuda=True).use_device == "cuda"
    with pytest.raises(AssertionError, match="Device-only events"):
        profile(use_cpu=False)


def test_a_call_is_recorded_under_the_name_that_was_called() -> None:
    x = gradlib.ones(3, 3)
    v = gradlib.ones(3)
    m = gradlib
    calls: dict[str, Callable[[], Any]] = {
        "mm": lambda: m.mm(x, x), "bmm": lambda: m.bmm(x[None], x[None]), "mv": lambda: x.mv(v), "dot": lambda: v.dot(v),
        "matmul": lambda: x @ x, "mul": lambda: x * x, "multiply": lambda: m.multiply(x, x), "subtract": lambda: x.subtract(x),
        "sub": lambda: x - x, "arccos": lambda: m.arccos(x), "greater": lambda: m.greater(x, x), "gt": lambda: x > x,
        "negative": lambda: x.negative(), "neg": lambda: -x, "concat": lambda: m.concat([x, x]), "swapaxes": lambda: x.swapaxes(0, 1),
        "absolute": lambda: m.absolute(x), "clamp": lambda: x.clamp(min=0), "max": lambda: x.max(), "median": lambda: x.median(),
        "linear": lambda: m.nn.functional.linear(x, x), "mse_loss": lambda: m.nn.functional.mse_loss(x, x), "std_mean": lambda:
        m.std_mean(x, axis=0), "row_stack": lambda: m.row_stack([x, x]), "moveaxis": lambda: m.moveaxis(x, 0, 1), "outer": lambda:
        m.outer(v, v), "add_": lambda: x.clone().add_(1), "mul_": lambda: x.clone().__imul__(x), "clamp_": lambda: x.clone().clamp_(0, 1),
        "addmm_": lambda: x.clone().addmm_(x, x), "scatter_add_": lambda: x.clone().scatter_add_(0, x.long(), x), "copy_": lambda:
        x.clone().copy_(x), "relu_": lambda: x.clone().relu_(), "normal_": lambda: x.clone().normal_(),
    }  # fmt: skip
    for name, call in calls.items():
        with profile(record_shapes=True) as found:
            call()
        outermost = [e for e in found.function_events if e.cpu_parent is None]
        assert outermost[-1].name == name, names(found.function_events)
        assert names(found.function_events).count(name) == 1, names(found.function_events)
        assert outermost[-1].kind == "op"
        assert outermost[-1].input_shapes


def test_products_are_grouped_as_in_torchs_table() -> None:
    x, y = gradlib.ones(3, 3), gradlib.ones(2, 3)
    with profile(record_shapes=True, with_flops=True) as found:
        gradlib.mm(x, x)
        gradlib.mm(x, x)
        gradlib.mm(y, x)
        y @ x
    rows = {(a.key, str(a.input_shapes)): (a.count, a.flops) for a in found.key_averages(group_by_input_shape=True)}
    assert rows == {
        ("mm", "[[3, 3], [3, 3]]"): (2, 2 * 54), ("mm", "[[2, 3], [3, 3]]"): (1, 36), ("matmul", "[[2, 3], [3, 3]]"): (1, 36),
    }  # fmt: skip


@pytest.mark.parametrize("timed", [False, True])
def test_integrators_have_their_public_names(timed: bool) -> None:
    u = gradlib.zeros(1, 8, 2, requires_grad=True)
    start = (gradlib.zeros(1, 2),)
    dt: Any = gradlib.tensor(0.1, requires_grad=True) if timed else 0.1
    runs: dict[str, Callable[[], Any]] = {
        "step_position": lambda: trajectory.step_position(u, start, dt), "step_velocity": lambda: trajectory.step_velocity(u, start, dt),
        "step_acceleration": lambda: trajectory.step_acceleration(u, start, dt), "step_jerk": lambda: trajectory.step_jerk(u, start, dt),
        "step_bspline": lambda: trajectory.step_bspline(u, start, dt, samples_per_knot=2),
        "smoothness_cost": lambda: [trajectory.smoothness_cost(u, start, dt, (1.0, 1.0, 1.0))],
        "step_position ": lambda: trajectory.step_position(u, start, dt, scheme="central"),
    }  # fmt: skip
    for name, run in runs.items():
        with profile() as found:
            made = run()[0]
            made.sum().backward()
        node = "".join(part.capitalize() for part in name.strip().split("_")) + "Backward0"
        assert {name.strip(), node} <= set(names(found.function_events))
        assert made.grad_fn.name() == node
        assert not any("trajectory" in each.lower() for each in names(found.function_events))


@pytest.mark.cuda
def test_device_time_is_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: 0.25)  # milliseconds
    with profile(use_device="cuda") as found:
        gradlib.ones(3, device="cuda") * 2
    (event,) = (e for e in found.function_events if e.name == "mul")
    assert event.cuda_time_total == 250


@pytest.mark.cuda
def test_device_time_on_a_gpu() -> None:
    x = gradlib.ones(512, 512, device="cuda", requires_grad=True)
    with profile(use_device="cuda", profile_memory=True) as found:
        (x @ x).sum().backward()
    events = {e.name: e for e in found.function_events}
    assert events["matmul"].cuda_time_total > 0
    assert events["MatmulBackward0"].cuda_time_total > 0
    assert events["matmul"].device_memory_usage == 512 * 512 * 4
    assert "CUDA total" in found.key_averages().table(sort_by="cuda_time_total")


def test_what_layers_make_of_an_operation_is_seen() -> None:
    x = gradlib.ones(5, 3)
    with profile() as found:
        gradlib.func.vmap(gradlib.func.grad(lambda v: (v * v).sin().sum()))(x)
    seen = [e.name for e in found.function_events if e.kind != "user"]
    assert {"mul", "sin", "sum", "SumBackward0", "SinBackward0", "MulBackward0"} <= set(seen)
    by_seq = {e.seq: e.name for e in found.function_events if e.kind == "op"}
    for node in (e for e in found.function_events if e.kind == "node" and e.stashed is not None):
        assert node.name == f"{by_seq[node.stashed].capitalize()}Backward0"


def test_anomaly_mode_and_hooks_for_saved_tensors_work_within() -> None:
    x = gradlib.ones(3, requires_grad=True)
    with profile() as found, gradlib.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
    names_seen = names(found.function_events)
    assert names_seen.count("mul") == 1 + 2, "the hook's own operations too"
