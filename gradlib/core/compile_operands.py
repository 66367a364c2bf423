"""How the text of a fast path, which `gradlib.core.compile_path` writes, reads its operands and brings them to one dtype."""

from __future__ import annotations

from gradlib.backend.dtype import ALWAYS_HELD
from gradlib.core.compile_forward import leave_if_moved, tangent_of
from gradlib.core.declaration import Op
from gradlib.core.variant import CALL, FORWARD, OPERATOR, Variant


def is_loose(op: Op) -> bool:
    """Whether the fast path also serves calls in which the first tensor argument is no Tensor.

    It is then a list, one of several with a joint rule, or the only one without a derivative.
    """
    return op.tensors[0] == op.sequence or bool(op.joint) or (bool(op.rules) and op.tensors[0] not in op.rules)


def may_follow(op: Op, variant: Variant) -> bool:
    """Whether the first Tensor may also be the second operand, after a number or a raw array: on a device, where a call costs more."""
    return variant.on_device and op.numbers_first and len(op.tensors) == 2 and not is_loose(op)


def first_tensor(op: Op, variant: Variant) -> str | None:
    """The operand that is known to be a Tensor once the fast path is entered."""
    return None if is_loose(op) or may_follow(op, variant) else op.tensors[0]


def promotes_itself(op: Op) -> bool:
    """Whether the operation's own promotion function must run, also for floats of one dtype."""
    if not callable(op.promote):
        return False
    return op.sequence is not None or len(op.outputs) > 1 or (bool(op.rules) and set(op.tensors) != set(op.rules))


def _may_be_complex(op: Op) -> bool:
    """Whether the fast path serves complex operands as it does real ones."""
    return op.complex == "explicit" or not op.rules


def conjugates(op: Op, variant: Variant) -> bool:
    """Whether the fast path serves complex operands with nodes of their own, as that on a device does; its ``_complex`` tells them."""
    return variant.on_device and not variant.forward and bool(op.rules) and op.complex == "holomorphic"


def is_dtype_known(op: Op) -> bool:
    """Whether the result has the common dtype of the operands; of complex operands it may be real."""
    return bool(op.promote) and bool(op.rules) and not promotes_itself(op) and not _may_be_complex(op)


def is_list(name: str | None) -> str:
    """The condition that an argument is a list or tuple; ``type(x) in (list, tuple)`` takes twice as long."""
    return f"(type({name}) is list or type({name}) is tuple)"


def others_known(op: Op, variant: Variant) -> list[str]:
    """The conditions of an operator that the other operand is a Tensor or a number of Python's.

    What it does not know `operate` leaves to that operand's own operator.
    """
    kinds = ("Tensor", "float", "int", "complex")
    others = op.params[1:] if variant is OPERATOR else ()
    return [f"({' or '.join(f'type({name}) is {kind}' for kind in kinds)})" for name in others]


def entered(op: Op, variant: Variant) -> list[str]:
    """The first Tensor: its array is of the right class, and of a dtype that the rest can go by."""
    if may_follow(op, variant):
        first, second = op.tensors[:2]
        known = [f"if not ({variant.serves('_array')}):", f"    {variant.leave(op)}", _dtype_of("_array")]
        lines = [f"    _first = {first} if type({first}) is Tensor else {second}", f"    if type(_first) is Tensor and {variant.usual}:"]
        return [*lines, "        _array = _first._array", *(f"        {line}" for line in known)]
    first = op.tensors[0]
    dtype = f"a_{first}.dtype"
    real = "" if op.promote or _may_be_complex(op) or conjugates(op, variant) else f' and {dtype}.kind != "c"'
    elsewhere = [f"if not ({variant.serves(f'a_{first}')}{real}):", f"    {variant.leave(op)}"]
    if variant.on_device:
        known = [*elsewhere, _dtype_of(f"a_{first}")]
        if conjugates(op, variant) and not op.promote:
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
    condition = " and ".join([f"not isinstance(a_{op.tensors[0]}, ndarray)", *others_known(op, variant)])
    return [f"if {condition}:", f"    {_on_device(op, variant)}"]


def _on_device(op: Op, variant: Variant) -> str:
    called = "forward_on_device(_level, " if variant is FORWARD else "on_device("
    return f"return op.{called}{', '.join(op.params)})"


def read(op: Op, place: int, variant: Variant) -> list[str]:
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
        *(["    _some = True"] if is_loose(op) else []),
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
        *([] if promotes_itself(op) else ["    _dtype = None"]),
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
    if variant.on_device or variant.forward or not op.promote or promotes_itself(op) or not op.is_ufunc:
        return name
    return f"{name} if _dtype is None else {name} and (singles if _dtype is F32 else doubles)[{name}]"


def read_list(op: Op, variant: Variant) -> list[str]:
    """The operands of a list: Tensors, raw arrays, and None where nothing brings them to one dtype."""
    name = op.sequence
    by_first = op.tensors[0] == name and op.promote and not promotes_itself(op)
    of_first = ["if _array.dtype is not _dtype:", f"    _dtype = None if a_{name} else _array.dtype"]
    return [
        f"if not {is_list(name)}{f' or not {name}' if by_first else ''}:",
        f"    {variant.leave(op)}",
        *(["_dtype = None"] if by_first else []),
        f"a_{name} = []",
        f"{'t' if variant.forward else 'n'}_{name} = []",
        f"for _each in {name}:",
        "    if type(_each) is Tensor:",
        "        _array = _each._array",
        *([] if variant.forward else [f"        n_{name}.append(_each._node)"]),
        *(["        _some = True"] if is_loose(op) else []),
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
    known = [f"    {line}" for line in tangent_of(op, "_each", variant)]
    moved = ["    if t__each is not None:", "        _moved = True"]
    return ["t__each = None", "if type(_each) is Tensor:", *known, *moved, f"t_{op.sequence}.append(t__each)"]


def _list_to_device(op: Op, variant: Variant) -> list[str]:
    """``_to_device`` for an operation that is led by a list."""
    if variant not in (CALL, FORWARD) or not op.led_by_list:
        return []
    return ["elif type(_each) is Tensor and not isinstance(_array, ndarray):", f"    {_on_device(op, variant)}"]


def _checked_tensor(op: Op, name: str, variant: Variant) -> list[str]:
    """The class and dtype of the array in a Tensor, as the Tensor knows them or as they are asked now."""
    if may_follow(op, variant):  # it may be the one that is known
        return [f"if a_{name} is not _array:", *(f"    {line}" for line in _checked_array(op, f"a_{name}", variant))]
    if variant.on_device or is_loose(op) or not op.promote or promotes_itself(op):
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
    if op.promote and not promotes_itself(op):
        inner = [] if variant.on_device else [f"    {line}" for line in elsewhere]  # elsewhere the slow path refuses it
        return [*(elsewhere if variant.on_device else []), f"if {array}.dtype is not _dtype:", *inner, "    _dtype = None"]
    if op.promote or _may_be_complex(op):
        return elsewhere
    return [*elsewhere, f'if {array}.dtype.kind == "c":', "    _complex = True" if conjugates(op, variant) else leave]


def operands(op: Op) -> str:
    """The operands' values, as the text lists them."""
    return ", ".join(f"*a_{name}" if name == op.sequence else f"a_{name}" for name in op.tensors)


def promoted(op: Op, variant: Variant) -> list[str]:
    """Operands that are not floats of one dtype are converted to their common dtype."""
    if not op.promote:
        return ["if _dtype is None:", *(f"    {line}" for line in leave)] if (leave := _left_alone(op, variant)) else []
    names = operands(op)
    if not variant.on_device and _may_be_complex(op):
        lines = [f"[{names}] = _meet([{names}])"]
    else:
        meet = "meet_on_device" if variant.on_device else "meet"
        lines = [f"_met = {meet}(op, [{names}])", "if _met is None:", f"    {variant.leave(op)}", f"[{names}] = _met"]
    lead = op.tensors[0]
    first = f"a_{lead}[0]" if lead == op.sequence else f"a_{lead}"
    if may_follow(op, variant):  # it may be a number
        first = f"({first} if type({first}) is {variant.array} else a_{op.tensors[1]})"
    if conjugates(op, variant):
        lines.append(f'_complex = {first}.dtype.kind == "c"')
    if promotes_itself(op):
        return [*lines, *_if_converted(op, variant)]
    again = [f"    _dtype = {first}.dtype"] if is_dtype_known(op) else []
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
