"""The text of each operation's fast path, which ``core/compile.py`` compiles. Not called once it is compiled.

The fast path is what runs when every input is a Tensor on NumPy of one dtype, float32 or float64 (or a Python number), and nothing
unusual is active. It does no look-up by name, no loop over inputs and no call but the operation's own. A `Variant` of the same text serves
calls under an observer, under hooks for saved tensors, in forward mode, and on CuPy arrays. Everything else goes to ``dispatch`` or
``slow_path``, which do the same in general and are the text to read first.

Each function here gives the lines of one step, as Python; names of the text's own begin with an underscore, ``a_NAME`` is the array of an
operand, ``n_NAME`` its node and ``t_NAME`` its tangent.
"""

from __future__ import annotations

from gradlib.backend.dtype import ALWAYS_HELD
from gradlib.core.compile_forward import attached, has_forward, knows_tangent, leave_if_moved, tangent_of, tangent_of_result
from gradlib.core.declaration import Op
from gradlib.core.variant import CALL, FORWARD, OBSERVED, ON_DEVICE, OPERATOR, PACKING, Variant


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
    usual = "global_state.active" if _is_loose(op) else f"type({op.tensors[0]}) is Tensor"
    return [
        f"    if {usual} and not global_state.observed:",
        "        _level = thread_state.quick",
        f"        if {' and '.join(['_level is not None', *_others_known(op, variant)])}:",
        f"            return _forward(_level, {', '.join(op.params)})",
    ]


def _others_known(op: Op, variant: Variant) -> list[str]:
    """The conditions of an operator that the other operand is a Tensor or a number of Python's.

    What it does not know `operate` leaves to that operand's own operator.
    """
    kinds = ("Tensor", "float", "int", "complex")
    others = op.params[1:] if variant is OPERATOR else ()
    return [f"({' or '.join(f'type({name}) is {kind}' for kind in kinds)})" for name in others]


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
    return on_raw + fast if _is_loose(op) else fast + on_raw


def _may_follow(op: Op, variant: Variant) -> bool:
    """Whether the first Tensor may also be the second operand, after a number or a raw array: on a device, where a call costs more.

    So it is where torch calls that ``other``, or ``exponent``: whatever else stands beside a tensor cannot be written in its place.
    """
    alike = len(op.tensors) == 2 and op.tensors[1] in ("other", "exponent")
    return variant.on_device and alike and not _is_loose(op) and bool(op.promote)


def _first_tensor(op: Op, variant: Variant) -> str | None:
    """The operand that is known to be a Tensor once the fast path is entered."""
    return None if _is_loose(op) or _may_follow(op, variant) else op.tensors[0]


def _is_loose(op: Op) -> bool:
    """Whether the fast path also serves calls in which the first tensor argument is no Tensor.

    It is then a list, one of several with a joint rule, or the only one without a derivative.
    """
    return op.tensors[0] == op.sequence or bool(op.joint) or (bool(op.rules) and op.tensors[0] not in op.rules)


def _promotes_itself(op: Op) -> bool:
    """Whether the operation's own promotion function must run, also for floats of one dtype."""
    if not callable(op.promote):
        return False
    return op.sequence is not None or len(op.outputs) > 1 or (bool(op.rules) and set(op.tensors) != set(op.rules))


def _may_be_complex(op: Op) -> bool:
    """Whether the fast path serves complex operands as it does real ones."""
    return op.complex == "explicit" or not op.rules


def _conjugates(op: Op, variant: Variant) -> bool:
    """Whether the fast path serves complex operands with nodes of their own, as that on a device does; its ``_complex`` tells them."""
    return variant.on_device and not variant.forward and bool(op.rules) and op.complex == "holomorphic"


def _is_dtype_known(op: Op) -> bool:
    """Whether the result has the common dtype of the operands; of complex operands it may be real."""
    return bool(op.promote) and bool(op.rules) and not _promotes_itself(op) and not _may_be_complex(op)


def _fast_path(op: Op, variant: Variant) -> list[str]:
    """The case it serves, step by step; names of its own begin with an underscore, so that none is a parameter's (``dtype``, ``value``).

    What the value raises is not handled here: unless `written.left` raises it, the text falls through to its last line, and ``slow_path``
    says what is wrong. Only a value that has begun to write its input does not run again.
    """
    loose = _is_loose(op)
    lines = [f"    if {variant.usual}:", "        _some = False"] if loose else _entered(op, variant)
    made = "Node"
    body = ["_ufunc = _direct"] if op.broadcasts and not variant.on_device else []
    if _conjugates(op, variant) and (loose or op.promote):
        body.append("_complex = False")
    first = _first_tensor(op, variant)
    if variant.forward and op.sequence in op.rules:
        body.append("_moved = False")
    if not variant.forward and any(op.tensors[place] != first for place in op.without_tensors):
        made = "_made"
        body.append("_made = Node")
    for place, name in enumerate(op.tensors):
        if name == op.sequence:
            body += _read_list(op, variant)
        elif name != first:
            body += _read(op, place, variant)
    if loose:
        body += ["if not _some:", f"    {variant.leave(op)}"]
    body += [*_promoted(op, variant), *_run(op, variant, made), *_returned(op, variant)]
    return [*lines, *(f"        {line}" for line in body)]


def _entered(op: Op, variant: Variant) -> list[str]:
    """The first Tensor: its array is of the right class, and of a dtype that the rest can go by."""
    if _may_follow(op, variant):
        first, second = op.tensors[:2]
        known = [f"if not ({variant.serves('_array')}):", f"    {variant.leave(op)}", _dtype_of("_array")]
        lines = [f"    _first = {first} if type({first}) is Tensor else {second}", f"    if type(_first) is Tensor and {variant.usual}:"]
        return [*lines, "        _array = _first._array", *(f"        {line}" for line in known)]
    first = op.tensors[0]
    dtype = f"a_{first}.dtype"
    real = "" if op.promote or _may_be_complex(op) or _conjugates(op, variant) else f' and {dtype}.kind != "c"'
    elsewhere = [f"if not ({variant.serves(f'a_{first}')}{real}):", f"    {variant.leave(op)}"]
    if variant.on_device:
        known = [*elsewhere, _dtype_of(f"a_{first}")]
        if _conjugates(op, variant) and not op.promote:
            known.append(f'_complex = {dtype}.kind == "c"')
    else:
        known = [
            f"_dtype = {first}._float",
            "if _dtype is None:",
            *(f"    {line}" for line in (*_to_device(op, variant), *elsewhere)),
            f"    if {dtype} is F32 or {dtype} is F64:",
            f"        _dtype = {first}._float = {dtype}",
        ]
    lines = [f"    if type({first}) is Tensor and {variant.usual}:", f"        a_{first} = {first}._array"]
    return [*lines, *(f"        {line}" for line in (*known, *_followed(op, first, variant)))]


def _dtype_of(array: str) -> str:
    return f"_dtype = {array}.dtype if {array}.dtype is F32 or {array}.dtype is F64 else None"


def _followed(op: Op, name: str, variant: Variant) -> list[str]:
    """What derivatives need to know of an operand that is a Tensor: its node, or in forward mode its tangent."""
    if variant.forward:
        return tangent_of(op, name, variant) if name in op.rules else []
    return [f"n_{name} = {name}._node"] if op.rules else []


def _unfollowed(op: Op, name: str, variant: Variant) -> list[str]:
    """The same of one that is none."""
    followed = name in op.rules if variant.forward else bool(op.rules)
    return [f"{'t' if variant.forward else 'n'}_{name} = None"] if followed else []


def _to_device(op: Op, variant: Variant) -> list[str]:
    """Hand a call whose first operand is a Tensor around a CuPy array to the fast path for these, with nothing between."""
    if variant not in (CALL, OPERATOR, FORWARD):
        return []
    condition = " and ".join([f"not isinstance(a_{op.tensors[0]}, ndarray)", *_others_known(op, variant)])
    return [f"if {condition}:", f"    {_on_device(op, variant)}"]


def _on_device(op: Op, variant: Variant) -> str:
    called = "forward_on_device(_level, " if variant is FORWARD else "on_device("
    return f"return op.{called}{', '.join(op.params)})"


def _read(op: Op, place: int, variant: Variant) -> list[str]:
    """An operand: a Tensor, a number, a raw array, or None where it has no derivative.

    Where the array and the first one are not floats of one dtype, and operands meet in one, ``_dtype`` becomes None.
    """
    name = op.tensors[place]
    return [
        f"_kind = type({name})",
        "if _kind is Tensor:",
        f"    a_{name} = {name}._array",
        *(f"    {line}" for line in _checked_tensor(op, name, variant)),
        *(f"    {line}" for line in _followed(op, name, variant)),
        *(["    _some = True"] if _is_loose(op) else []),
        f"elif {_number_taken(op, name, '_kind')}{f' or {name} is None' if name not in op.rules and (op.rules or not op.promote) else ''}:",
        f"    a_{name} = {_number(op, name, variant)}",
        *(f"    {line}" for line in _unfollowed(op, name, variant)),
        *_unsaved(op, place, variant),
        *(_complex_number(op, place, variant) if variant.on_device and op.promote else ()),
        f"elif {variant.serves(name)}:",
        f"    a_{name} = {name}",
        *(f"    {line}" for line in _checked_array(op, f"a_{name}", variant, known=True)),
        *(f"    {line}" for line in _unfollowed(op, name, variant)),
        *(_numpy_number(op, place, variant) if variant.on_device else ()),
        "else:",
        f"    {variant.leave(op)}",
    ]


def _number_taken(op: Op, name: str, kind: str) -> str:
    """The condition that an operand is a number that a fast path takes; ``kind``: the expression for its type."""
    if getattr(op.promote, "fits", False):
        return f"({kind} is float or {kind} is int) and {-ALWAYS_HELD} < {name} < {ALWAYS_HELD}"
    return f"{kind} is float or {kind} is int"


def _complex_number(op: Op, place: int, variant: Variant) -> list[str]:
    """One of Python's complex numbers, which real operands meet in a complex dtype."""
    name = op.tensors[place]
    return [
        "elif _kind is complex_number:",
        f"    a_{name} = {name}",
        *([] if _promotes_itself(op) else ["    _dtype = None"]),
        *(f"    {line}" for line in _unfollowed(op, name, variant)),
        *_unsaved(op, place, variant),
    ]


def _unsaved(op: Op, place: int, variant: Variant) -> list[str]:
    """Beside a number the node may hold no tensor."""
    return ["    _made = Lasting"] if place in op.without_tensors and not variant.forward else []


def _numpy_number(op: Op, place: int, variant: Variant) -> list[str]:
    """One of NumPy's real numbers counts as Python's does."""
    name = op.tensors[place]
    return [
        "elif issubclass(_kind, numpy_number):",
        f"    {name} = a_{name} = {name}.item()",
        f"    if not ({_number_taken(op, name, f'type({name})')}):",
        f"        {variant.leave(op)}",
        *(f"    {line}" for line in _unfollowed(op, name, variant)),
        *_unsaved(op, place, variant),
    ]


def _number(op: Op, name: str, variant: Variant) -> str:
    """What a number computes as: beside floats, an array in which it is kept, unless rules are given it too."""
    if variant.on_device or variant.forward or not op.promote or _promotes_itself(op) or not op.is_ufunc:
        return name
    return f"{name} if _dtype is None else {name} and (singles if _dtype is F32 else doubles)[{name}]"


def _read_list(op: Op, variant: Variant) -> list[str]:
    """The operands of a list: Tensors, raw arrays, and None where nothing brings them to one dtype."""
    name = op.sequence
    by_first = op.tensors[0] == name and op.promote and not _promotes_itself(op)
    of_first = ["if _array.dtype is not _dtype:", f"    _dtype = None if a_{name} else _array.dtype"]
    return [
        f"if not {_is_list(name)}{f' or not {name}' if by_first else ''}:",
        f"    {variant.leave(op)}",
        *(["_dtype = None"] if by_first else []),
        f"a_{name} = []",
        f"{'t' if variant.forward else 'n'}_{name} = []",
        f"for _each in {name}:",
        "    if type(_each) is Tensor:",
        "        _array = _each._array",
        *([] if variant.forward else [f"        n_{name}.append(_each._node)"]),
        *(["        _some = True"] if _is_loose(op) else []),
        "    else:",
        "        _array = _each",
        *([] if variant.forward else [f"        n_{name}.append(None)"]),
        f"    if {variant.serves('_array')}:",
        *(f"        {line}" for line in (of_first if by_first else _checked_array(op, "_array", variant, known=True))),
        f"        a_{name}.append(_array)",
        *([] if op.promote else ["    elif _array is None:", f"        a_{name}.append(None)"]),
        *(f"    {line}" for line in _list_to_device(op, variant)),
        "    else:",
        f"        {variant.leave(op)}",
        *(f"    {line}" for line in _each_tangent(op, variant)),
        *(["if _dtype is not F32 and _dtype is not F64:", "    _dtype = None"] if by_first else []),
    ]


def _each_tangent(op: Op, variant: Variant) -> list[str]:
    """In forward mode the tangent of each; ``_moved`` says whether there is one."""
    if not variant.forward or op.sequence not in op.rules:
        return []
    read = [f"    {line}" for line in tangent_of(op, "_each", variant)]
    moved = ["    if t__each is not None:", "        _moved = True"]
    return ["t__each = None", "if type(_each) is Tensor:", *read, *moved, f"t_{op.sequence}.append(t__each)"]


def _list_to_device(op: Op, variant: Variant) -> list[str]:
    """``_to_device`` for an operation that is led by a list."""
    if variant not in (CALL, FORWARD) or not op.led_by_list:
        return []
    return ["elif type(_each) is Tensor and not isinstance(_array, ndarray):", f"    {_on_device(op, variant)}"]


def _checked_tensor(op: Op, name: str, variant: Variant) -> list[str]:
    """The class and dtype of the array in a Tensor, as the Tensor knows them or as they are asked now."""
    if _may_follow(op, variant):  # it may be the one that is known
        return [f"if a_{name} is not _array:", *(f"    {line}" for line in _checked_array(op, f"a_{name}", variant))]
    if variant.on_device or _is_loose(op) or not op.promote or _promotes_itself(op):
        return _checked_array(op, f"a_{name}", variant)
    known = [f"        {name}._float = _dtype"]
    if op.broadcasts:  # a tensor that meets large ones of another shape stays unknown, so that nobody else is asked for shapes
        first = f"a_{op.tensors[0]}"
        known = [
            f"        if {first}.nbytes < LARGE or {first}.size == a_{name}.size:",
            f"    {known[0]}",
            "        else:",
            "            _ufunc = _broadcast",
        ]
    return [
        f"if _dtype is None or {name}._float is not _dtype:",
        f"    if not ({variant.serves(f'a_{name}')}):",
        f"        {variant.leave(op)}",
        f"    if a_{name}.dtype is _dtype:",
        *known,
        "    else:",
        "        _dtype = None",
    ]


def _checked_array(op: Op, array: str, variant: Variant, known: bool = False) -> list[str]:
    """The class and dtype of the array in an operand. ``known``: its class is known."""
    leave = f"    {variant.leave(op)}"
    elsewhere = [] if known else [f"if not ({variant.serves(array)}):", leave]
    if op.promote and not _promotes_itself(op):
        inner = [] if variant.on_device else [f"    {line}" for line in elsewhere]  # elsewhere the slow path refuses it
        return [*(elsewhere if variant.on_device else []), f"if {array}.dtype is not _dtype:", *inner, "    _dtype = None"]
    if op.promote or _may_be_complex(op):
        return elsewhere
    return [*elsewhere, f'if {array}.dtype.kind == "c":', "    _complex = True" if _conjugates(op, variant) else leave]


def _operands(op: Op) -> str:
    """The operands' values, as the text lists them."""
    return ", ".join(f"*a_{name}" if name == op.sequence else f"a_{name}" for name in op.tensors)


def _promoted(op: Op, variant: Variant) -> list[str]:
    """Operands that are not floats of one dtype are converted to their common dtype."""
    if not op.promote:
        return ["if _dtype is None:", *(f"    {line}" for line in leave)] if (leave := _left_alone(op, variant)) else []
    names = _operands(op)
    if not variant.on_device and _may_be_complex(op):
        lines = [f"[{names}] = _meet([{names}])"]
    else:
        meet = "meet_on_device" if variant.on_device else "meet"
        lines = [f"_met = {meet}(op, [{names}])", "if _met is None:", f"    {variant.leave(op)}", f"[{names}] = _met"]
    lead = op.tensors[0]
    first = f"a_{lead}[0]" if lead == op.sequence else f"a_{lead}"
    if _may_follow(op, variant):  # it may be a number
        first = f"({first} if type({first}) is {variant.array} else a_{op.tensors[1]})"
    if _conjugates(op, variant):
        lines.append(f'_complex = {first}.dtype.kind == "c"')
    if _promotes_itself(op):
        return [*lines, *_if_converted(op, variant)]
    again = [f"    _dtype = {first}.dtype"] if _is_dtype_known(op) else []
    lines = [*(leave_if_moved(op, variant)), *lines]
    return [*(["_float = _dtype"] if again else []), "if _dtype is None:", *(f"    {line}" for line in lines), *again]


def _left_alone(op: Op, variant: Variant) -> list[str]:
    """In forward mode rules compute on floats of one dtype."""
    return leave_if_moved(op, variant) if op.kind in ("elementwise", "bilinear") else []


def _if_converted(op: Op, variant: Variant) -> list[str]:
    """In forward mode no operand that has a tangent is converted."""
    if not variant.forward:
        return []
    single = [name for name in op.tensors if name in op.rules and name != op.sequence]
    tests = [f"(t_{name} is not None and t_{name}.dtype is not a_{name}.dtype)" for name in single]
    return [f"if {' or '.join(tests)}:", f"    {variant.leave(op)}"] if tests else []


def _computed(op: Op, variant: Variant) -> list[str]:
    """The value: an array, or several of them."""
    passed = ", ".join(f"a_{p}" if p in op.tensors else p for p in op.params)
    value = variant.value(op, passed)
    if op.of_floats is not None and _is_dtype_known(op) and not (variant.on_device and op.on_kernel):
        value = f"(_of_floats if _float is not None else _value)({variant.library}, {passed})"
    if op.broadcasts and not variant.on_device:
        value = f"_ufunc({passed})"
    lines = [f"    out = {value}"]
    if len(op.outputs) > 1:
        return lines
    scalar = "asarray(out) if isinstance(out, generic) else " if variant.array == "ndarray" else ""  # NumPy's, of a 0-d result
    lines += [f"    if type(out) is not {variant.array}:", f"        out = {scalar}as_array(out)"]
    if variant.on_device and op.promote and not _is_loose(op):  # CuPy makes float32 of some operands of half types
        real = f"{'_array' if _may_follow(op, variant) else f'a_{op.tensors[0]}'}.dtype.kind != \"c\""
        lines += [f"    if out.dtype is F32 and _dtype is not F32 and {real}:", f"        out = narrowed(op, out, [{_operands(op)}])"]
    return lines


def _run(op: Op, variant: Variant, made: str) -> list[str]:
    """The value, and the node around it where a gradient is wanted."""
    compute, single = _computed(op, variant), len(op.outputs) == 1
    if not op.rules:
        return ["try:", *compute, *_EXCEPT, "else:"]
    if variant.forward:
        if not knows_tangent(op):
            return [*leave_if_moved(op, variant), "try:", *compute, *_EXCEPT, "else:"]
        return ["try:", *compute, *(f"    {line}" for line in tangent_of_result(op, variant, _is_dtype_known(op))), *_EXCEPT, "else:"]
    unwanted = " and ".join(f"not any(n_{name})" if name == op.sequence else f"n_{name} is None" for name in op.tensors)
    if op.saving and len(op.saving) < len(op.rules):  # where only the others want a gradient it holds no tensor
        made = f"({made} if {_live(op, op.saving)} else Lasting)"
    if _conjugates(op, variant):
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
        f"        _node.dtype = {'_dtype' if _is_dtype_known(op) else 'out.dtype'}",
        "        _node._meta = None",
        *(_keep_stream("out") if variant.on_device else ()),
        *([] if op.promote and not _promotes_itself(op) and "dtype" not in op.params else _unless_integer(op)),
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
        f"    _result._float = {'_float' if _is_dtype_known(op) and not variant.on_device else 'None'}",
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
    another = "out.dtype is not _dtype and " if not _is_loose(op) and not _promotes_itself(op) else ""
    if len(op.tensors) > 1:  # of which another may have the gradient, as the source of a copy into integers
        another = "out.dtype is not F32 and out.dtype is not F64 and "
    if _conjugates(op, ON_DEVICE) or op.complex == "explicit":
        another += 'out.dtype.kind != "c" and '
    return [f"        if {another}not is_differentiable(out.dtype):", "            _node = None"]


def _raw_path(op: Op, variant: Variant) -> list[str]:
    """On arrays the value alone: what rules run on in a first-order backward."""
    single = [name for name in op.tensors if name != op.sequence]
    several = op.sequence
    first = variant.serves(single[0]) if single else f"{_is_list(several)} and {several} and {variant.serves(f'{several}[0]')}"
    result = variant.value(op, ", ".join(op.params))
    if op.joint:
        return _raw_list(op, variant, result)
    if variant.on_device and op.promote and _is_loose(op):
        result = f"narrowed(op, {result}, [{', '.join([*single, *([f'*{several}'] if several else [])])}])"
    lines = [f"    if {' and '.join([first, *(f'not isinstance({name}, Tensor)' for name in single[1:])])}:"]
    if op.sequence is None and op.overwrites:  # a value that writes its first argument does not run again
        return [*lines, f"        return {result}"]
    if op.sequence is None:
        return [*lines, "        try:", f"            return {result}", *(f"        {line}" for line in _EXCEPT)]
    search = [f"        for _each in {op.sequence}:", "            if isinstance(_each, Tensor):", "                break"]
    return [*lines, *search, "        else:", f"            return {result}"]


def _is_list(name: str | None) -> str:
    """The condition that an argument is a list or tuple; ``type(x) in (list, tuple)`` takes twice as long."""
    return f"(type({name}) is list or type({name}) is tuple)"


def _raw_list(op: Op, variant: Variant, result: str) -> list[str]:
    """The same for a list of arrays or None beside numbers or arrays."""
    beside = [f"(type({name}) is float or {variant.serves(name)})" for name in op.joint]
    return [
        f"    if {_is_list(op.sequence)} and {' and '.join(beside)}:",
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
    if kind == "tensor" and name != _first_tensor(op, variant) and op.numbers_in_single and variant.on_device:
        kept = f"(a_{name} if type(a_{name}) is single else {name})"  # in which backward computes, too
    if kind == "output":
        kept = "out" if len(op.outputs) == 1 else f"_outputs[{place}]"
    elif kind in ("shape", "dtype"):
        tensor = op.tensors[place]
        missing = "()" if kind == "shape" else "None"
        kept = f"getattr(a_{tensor}, {kind!r}, {missing})"
        if tensor == op.sequence:
            kept = f"[_each.{kind} for _each in a_{tensor}]"
        elif tensor == _first_tensor(op, variant):
            kept = f"a_{tensor}.{kind}"
    return f"({kept} if {_live(op, wanted_by)} else None)" if wanted_by and len(wanted_by) < len(op.tensors) else kept


def _live(op: Op, places: tuple[int, ...]) -> str:
    """The condition that one of the tensors at these places wants a gradient."""
    names = [op.tensors[place] for place in places]
    return " or ".join(f"any(n_{name})" if name == op.sequence else f"n_{name} is not None" for name in names)
