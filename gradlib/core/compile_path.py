"""The text of each operation's fast path, which ``core/compile.py`` compiles. Not called once it is compiled.

The fast path is what runs when every input is a Tensor on NumPy of one dtype, float32 or float64 (or a Python number), and nothing
unusual is active. It does no look-up by name, no loop over inputs and no call but the operation's own. A `Variant` of the same text serves
calls under an observer, under hooks for saved tensors, in forward mode, and on CuPy arrays. Everything else goes to ``dispatch`` or
``slow_path``, which do the same in general and are the text to read first.

Each function here gives the lines of one step, as Python; names of the text's own begin with an underscore, ``a_NAME`` is the array of an
operand, ``n_NAME`` its node and ``t_NAME`` its tangent; ``h_NAME`` is a hidden result.
"""

from __future__ import annotations

from gradlib.backend.dtype import DIFFERENTIABLE
from gradlib.core.compile_forward import attached, has_forward, knows_tangent, leave_if_moved, tangent_of_result
from gradlib.core.compile_operands import (
    conjugates,
    entered,
    first_tensor,
    is_dtype_known,
    is_list,
    is_loose,
    may_follow,
    operands,
    others_known,
    promoted,
    promotes_itself,
    read,
    read_list,
)
from gradlib.core.declaration import Op
from gradlib.core.variant import CALL, OBSERVED, OPERATOR, PACKING, Variant


def source_of(op: Op, variant: Variant) -> str:
    """The Python text of an operation's fast path, where its parameters are all that it takes."""
    return "\n".join([f"def {op.name}({', '.join(op.params)}):", *_paths(op, variant), f"    {variant.leave(op)}"])


def source_of_forward(op: Op, variant: Variant) -> str:
    """The Python text of an operation's fast path in forward mode, which is given the level first."""
    path = [] if not has_forward(op) else _paths(op, variant) if variant.on_device else _fast_path(op, variant)
    return "\n".join([f"def {op.name}(_level, {', '.join(op.params)}):", *path, f"    {variant.leave(op)}"])


def source_of_observed(op: Op) -> str:
    """The Python text of an operation's fast path under an observer, which gives it the sequence number first."""
    path = _fast_path(op, OBSERVED) if op.tensors else []
    return "\n".join([f"def observed(_seq, {', '.join(op.params)}):", *path, f"    {OBSERVED.leave(op)}"])


def source_of_call(op: Op, variant: Variant = CALL) -> str:
    """The Python text of an operation's public function."""
    arguments = ", ".join(op.params)
    aliased = "dim" in op.params
    lines = [f"def {op.label}({arguments if variant is OPERATOR else call_signature(op)[0]}):"]
    if aliased and variant is CALL:
        lines += ["    if aliases:", f"        return keywords(op, ({arguments},), aliases)"]
    if "out" not in op.params and variant is CALL:
        lines += ["    if out is not None:", f"        return keywords(op, ({arguments},), {{'out': out}})"]
    lines += _paths(op, variant)
    lines += _to_forward(op, variant)
    lines.append(f"    {variant.leave(op)}")
    return "\n".join(lines)


def _to_forward(op: Op, variant: Variant) -> list[str]:
    """Hand a call in forward mode to the fast path for it."""
    if not has_forward(op):
        return []
    usual = "global_state.active" if is_loose(op) else f"type({op.tensors[0]}) is Tensor"
    return [
        f"    if {usual} and not global_state.observed:",
        "        _level = thread_state.quick",
        f"        if {' and '.join(['_level is not None', *others_known(op, variant)])}:",
        f"            return _forward(_level, {', '.join(op.params)})",
    ]


def call_signature(op: Op) -> tuple[str, str]:
    """The declared parameters, with ``out`` and, where there is a ``dim``, NumPy's names for it; and how they are handed on."""
    head, call, keyword_only = [], [], False
    for name in op.params:
        if name in op.keyword_only and not keyword_only:
            head.append("*")
            keyword_only = True
        head.append(f"{name}=_default_{name}" if name in op.defaults else name)
        call.append(f"{name}={name}" if keyword_only else name)
    if "out" not in op.params:
        head += ([] if keyword_only else ["*"]) + ["out=None"]
        call.append("out=out")
    if "dim" in op.params:
        head.append("**aliases")
        call.append("**aliases")
    return ", ".join(head), ", ".join(call)


def _paths(op: Op, variant: Variant) -> list[str]:
    """The fast paths for Tensors and for raw arrays alone; the last line, which is not here, hands over every other call."""
    if not op.tensors:
        return []
    fast, on_raw = _fast_path(op, variant), _raw_path(op, variant)
    return on_raw + fast if is_loose(op) else fast + on_raw


def _fast_path(op: Op, variant: Variant) -> list[str]:
    """The case it serves, step by step; names of its own begin with an underscore, so that none is a parameter's (``dtype``, ``value``).

    What the value raises is not handled here: unless `written.left` raises it, the text falls through to its last line, and ``slow_path``
    says what is wrong. Only a value that has begun to write its input does not run again.
    """
    loose = is_loose(op)
    lines = [f"    if {variant.usual}:", "        _some = False"] if loose else entered(op, variant)
    made = "Node"
    body = ["_ufunc = _direct"] if op.broadcasts and not variant.on_device else []
    if conjugates(op, variant) and (loose or op.promote):
        body.append("_complex = False")
    first = first_tensor(op, variant)
    if variant.forward and op.sequence in op.rules:
        body.append("_moved = False")
    if not variant.forward and any(op.tensors[place] != first for place in op.without_tensors):
        made = "_made"
        body.append("_made = Node")
    for place, name in enumerate(op.tensors):
        if name == op.sequence:
            body += read_list(op, variant)
        elif name != first:
            body += read(op, place, variant)
    if loose:
        body += ["if not _some:", f"    {variant.leave(op)}"]
    body += [*promoted(op, variant), *_run(op, variant, made), *_returned(op, variant)]
    return [*lines, *(f"        {line}" for line in body)]


def _computed(op: Op, variant: Variant) -> list[str]:
    """The value: an array, or several of them."""
    passed = ", ".join(f"a_{p}" if p in op.tensors else p for p in op.params)
    value = variant.value(op, passed)
    if op.of_floats is not None and is_dtype_known(op) and not (variant.on_device and op.on_kernel):
        value = f"(_of_floats if _float is not None else _value)({variant.library}, {passed})"
    if op.broadcasts and not variant.on_device:
        value = f"_ufunc({passed})"
    lines = [f"    {', '.join(['out', *map(hidden, op.hidden)])} = {value}"]
    if len(op.outputs) > 1:
        return lines
    scalar = "asarray(out) if isinstance(out, generic) else " if variant.array == "ndarray" else ""  # NumPy's, of a 0-d result
    lines += [f"    if type(out) is not {variant.array}:", f"        out = {scalar}as_array(out)"]
    if variant.on_device and op.promote and not is_loose(op):  # CuPy makes float32 of some operands of half types
        real = f"{'_array' if may_follow(op, variant) else f'a_{op.tensors[0]}'}.dtype.kind != \"c\""
        lines += [f"    if out.dtype is F32 and _dtype is not F32 and {real}:", f"        out = narrowed(op, out, [{operands(op)}])"]
    return lines


def _run(op: Op, variant: Variant, made: str) -> list[str]:
    """The value, and the node around it where a gradient is wanted."""
    compute, single = _computed(op, variant), len(op.outputs) == 1
    if not op.rules:
        return ["try:", *compute, *_EXCEPT, "else:"]
    if variant.forward:
        if not knows_tangent(op):
            return [*leave_if_moved(op, variant), "try:", *compute, *_EXCEPT, "else:"]
        return ["try:", *compute, *(f"    {line}" for line in tangent_of_result(op, variant, is_dtype_known(op))), *_EXCEPT, "else:"]
    unwanted = " and ".join(f"not any(n_{name})" if name == op.sequence else f"n_{name} is None" for name in op.tensors)
    if op.saving and len(op.saving) < len(op.rules):  # where only the others want a gradient it holds no tensor
        made = f"({made} if {_live(op, op.saving)} else Lasting)"
    if conjugates(op, variant):
        made = f"({made} if not _complex else ComplexNode if {made} is Node else ComplexLasting)"
    return [
        "try:",
        f"    if ({unwanted}) or (global_state.no_grad and not thread_state.grad_enabled):",
        "        _node = None",
        *(f"    {line}" for line in compute if single),
        "    else:",
        f"        _node = {made}()",
        f"        _node.seq = {variant.seq}",
        *(_recorded(op, variant, compute) if single else _recorded_several(op, variant, compute)),
    ]


def _edges(op: Op) -> str:
    return f"_node.edges = ({', '.join(f'*n_{name}' if name == op.sequence else f'n_{name}' for name in op.tensors)},)"


def _saved(op: Op, variant: Variant) -> str:
    return f"_node.saved = ({''.join(_kept(op, name, variant) + ', ' for name in op.saved_names)})"


def _recorded(op: Op, variant: Variant, compute: list[str]) -> list[str]:
    """The rest of a node with one result, which is computed on the way."""
    return [
        *(f"    {line}" for line in compute),
        f"        {_edges(op)}",
        f"        {_saved(op, variant)}",
        "        _node.shape = out.shape",
        f"        _node.dtype = {'_dtype' if is_dtype_known(op) else 'out.dtype'}",
        "        _node._meta = None",
        *(_keep_stream("out") if variant.on_device else ()),
        *([] if op.promote and not promotes_itself(op) and "dtype" not in op.params else _unless_integer(op)),
        *(_except_begun(op.overwrites) if op.overwrites else _EXCEPT),
        "else:",
    ]


def _recorded_several(op: Op, variant: Variant, compute: list[str]) -> list[str]:
    """The same with several results: what is saved of them is known once they are Tensors."""
    results = f"wrap_several(op, ({', '.join(op.params)},), _node, out)"
    if op.view:
        results = f"views_of(op, {op.params[0]}, out, ({_rest(op)}), _node), out"
    return [
        f"        {_edges(op)}",
        "        _node._meta = None",
        *compute,
        *_EXCEPT,
        "else:",
        f"    _results, _outputs = {results}",
        "    if _node is not None and _outputs:",
        *(_keep_stream("_outputs[0]") if variant.on_device else ()),
        f"        {_saved(op, variant)}",
        *(f"    {line}" for line in _packed(op, variant)),
    ]


_EXCEPT = ["except Exception as _error:", "    left(_error)"]


def _except_begun(overwrites: str) -> list[str]:
    """A value that has begun to write its first argument does not run again."""
    return ["except Exception as _error:", f"    if {overwrites} and has_begun(_error):", "        raise", "    left(_error)"]


def _packed(op: Op, variant: Variant) -> list[str]:
    """Hooks for saved tensors are given what the node saved, and keep what they made of it."""
    if variant is not PACKING or not op.saved_names:
        return []
    result = "_result" if len(op.outputs) == 1 else "_results"
    return ["    if _node is not None and thread_state.saving:", f"        _node.saved = pack_results(op, _node.saved, {result})"]


def _returned(op: Op, variant: Variant) -> list[str]:
    """Tensors around the results."""
    carried = [f"    {line}" for line in attached(op)] if variant.forward and knows_tangent(op) else []
    recorded = bool(op.rules) and not variant.forward
    if len(op.outputs) > 1:
        if recorded:
            return ["    return _results"]
        return [f"    _results = wrap_several(op, ({', '.join(op.params)},), None, out)[0]", *carried, "    return _results"]
    return [
        "    _result = blank()",
        "    _result._array = out",
        f"    _result._float = {'_float' if is_dtype_known(op) and not variant.on_device else 'None'}",
        f"    _result._node = {'_node' if recorded else 'None'}",
        *(_marked(op, variant) if op.view else [] if carried else _UNMARKED),
        *_packed(op, variant),
        *carried,
        "    return _result",
    ]


_UNMARKED = ["    _result._meta = global_state.born", "    _result._version_slot = None"]


def _rest(op: Op) -> str:
    """The arguments of a view but its source, as they stand in a tuple."""
    return "".join(f"{name}, " for name in op.params[1:]).rstrip()


def _marked(op: Op, variant: Variant) -> list[str]:
    """The text that does the work of ``mark_view``, in the usual case without a call."""
    source, array, rest = op.params[0], f"a_{op.params[0]}", _rest(op)
    marked = [*_UNMARKED, f"    mark_view(op, {source}, _result, ({rest}))"]
    if source != op.tensors[0]:
        return marked
    owner, shares = ["    _owner = out.base"], f"_owner is {array} or (_owner is not None and _owner is {array}.base)"
    if variant.on_device:
        owner, shares = [], f"out is {array} or out.data.mem is {array}.data.mem"
    usual = "global_state.born is None" if op.rules else f"global_state.born is None and {source}._meta is None"
    shared = [*owner, f"    if ({shares}) and {usual}:"]
    if not op.rules:
        counted = f"        _result._version_slot = {source}._version_slot or {source}.version"
        return [*shared, "        _result._meta = None", counted, "    else:", *(f"    {line}" for line in marked)]
    return [
        *shared,
        "        _view = View()",
        "        _view.op = op",
        f"        _view.rest = ({rest})",
        "        if global_state.no_grad and not thread_state.grad_enabled:",
        "            _view.recorded = False",
        f"        _meta = {source}._meta",
        "        _parent = None if _meta is None else _meta if type(_meta) is View else _meta.view",
        "        if _parent is None:",
        f"            _view.base = {source}",
        "        else:",
        "            _view.follow(_parent)",
        "        _result._meta = _view",
        f"        _counter = _result._version_slot = {source}._version_slot or {source}.version",
        "        if type(_counter) is Version and len(_counter.views) < _counter.limit:  # as `add_view` has it",
        "            _counter.views.append(ref(_result))",
        "        else:",
        "            _counter.add_view(_result)",
        "    else:",
        *(f"    {line}" for line in marked),
    ]


def _keep_stream(array: str) -> list[str]:
    return ["        if current_stream() is not usual_stream:", f"            keep_stream(_node, {array}.data.device_id)"]


def _unless_integer(op: Op) -> list[str]:
    another = "out.dtype is not _dtype and " if not is_loose(op) and not promotes_itself(op) else ""
    if len(op.tensors) > 1:  # of which another may have the gradient, as the source of a copy into integers
        another = "out.dtype is not F32 and out.dtype is not F64 and "
    return [f"        if {another}out.dtype.kind not in {DIFFERENTIABLE!r}:", "            _node = None"]


def _raw_path(op: Op, variant: Variant) -> list[str]:
    """On arrays the value alone: what rules run on in a first-order backward."""
    single = [name for name in op.tensors if name != op.sequence]
    several = op.sequence
    first = variant.serves(single[0]) if single else f"{is_list(several)} and {several} and {variant.serves(f'{several}[0]')}"
    result = variant.value(op, ", ".join(op.params)) + ("[0]" if op.hidden else "")
    if op.joint:
        return _raw_list(op, variant, result)
    if variant.on_device and op.promote and is_loose(op):
        result = f"narrowed(op, {result}, [{', '.join([*single, *([f'*{several}'] if several else [])])}])"
    lines = [f"    if {' and '.join([first, *(f'not isinstance({name}, Tensor)' for name in single[1:])])}:"]
    if op.sequence is None and op.overwrites:  # a value that writes its first argument does not run again
        return [*lines, f"        return {result}"]
    if op.sequence is None:
        return [*lines, "        try:", f"            return {result}", *(f"        {line}" for line in _EXCEPT)]
    search = [f"        for _each in {op.sequence}:", "            if isinstance(_each, Tensor):", "                break"]
    return [*lines, *search, "        else:", f"            return {result}"]


def _raw_list(op: Op, variant: Variant, result: str) -> list[str]:
    """The same for a list of arrays or None beside numbers or arrays."""
    beside = [f"(type({name}) is float or {variant.serves(name)})" for name in op.joint]
    return [
        f"    if {is_list(op.sequence)} and {' and '.join(beside)}:",
        "        _some = False",
        f"        for _each in {op.sequence}:",
        f"            if {variant.serves('_each')}:",
        "                _some = True",
        "            elif _each is not None:",
        "                break",
        "        else:",
        "            if _some:",
        f"                return {result}",
    ]


def _kept(op: Op, name: str, variant: Variant) -> str:
    """The expression that saves one name a rule asked for; None when no rule that asked for it will run."""
    _, kind, place, wanted_by = op.needs[name]
    kept = name
    if kind == "tensor" and name != first_tensor(op, variant) and op.numbers_in_single and variant.on_device:
        kept = f"(a_{name} if type(a_{name}) is single else {name})"  # in which backward computes, too
    if kind == "output":
        kept = "out" if len(op.outputs) == 1 else f"_outputs[{place}]"
    elif kind == "hidden":
        kept = hidden(name)
    elif kind in ("shape", "dtype"):
        tensor = op.tensors[place]
        missing = "()" if kind == "shape" else "None"
        kept = f"getattr(a_{tensor}, {kind!r}, {missing})"
        if tensor == op.sequence:
            kept = f"[_each.{kind} for _each in a_{tensor}]"
        elif tensor == first_tensor(op, variant):
            kept = f"a_{tensor}.{kind}"
    return f"({kept} if {_live(op, wanted_by)} else None)" if wanted_by and len(wanted_by) < len(op.tensors) else kept


def hidden(name: str) -> str:
    """The name of a hidden result in the text."""
    return f"h_{name}"


def _live(op: Op, places: tuple[int, ...]) -> str:
    """The condition that one of the tensors at these places wants a gradient."""
    names = [op.tensors[place] for place in places]
    return " or ".join(f"any(n_{name})" if name == op.sequence else f"n_{name} is not None" for name in names)
