"""Custom Functions under vmap: by their static method ``vmap``, or by a rule generated from forward and backward."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from gradlib.core.batched import Batched, VmapLevel, is_batched_at
from gradlib.core.modes import lower
from gradlib.core.tensor import Tensor
from gradlib.func.level import Level
from gradlib.func.tree import broadcast_prefix, flatten, map_leaves, unflatten

_MORE = "See the docstring of gradlib.autograd.Function.vmap."


class VmapInfo(NamedTuple):
    """The argument ``info`` of a Function's ``vmap``: the size of the batch, and the ``randomness`` of the vmap."""

    batch_size: int
    randomness: str


def call_on_rows(cls: Any, found: VmapLevel, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The result of a Function for all rows at once.

    Raises: RuntimeError when the Function defines neither ``vmap`` nor ``generate_vmap_rule``, or both.
    """
    level = cast(Level, found)  # levels of vmap are of this class
    if not any(isinstance(v, Tensor) and is_batched_at(level, v) for v in flatten(args)[0]):
        with lower(level):
            made: tuple[Any, Any] = cls._call(args, _is_separate(cls))
            return made
    own = cls.vmap is not cls._root.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap staticmethod. Please "
            f"set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid ambiguity. {_MORE}"
        )
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True. {_MORE}"
        )
    return (_by_own_rule if own else _by_made_rule)(cls, level, args), SimpleNamespace(for_forward=())


def has_rule(cls: Any) -> bool:
    """Whether a Function has a batching rule: ``vmap`` or ``generate_vmap_rule``."""
    return bool(cls.generate_vmap_rule) or cls.vmap is not cls._root.vmap


def _is_separate(cls: Any) -> bool:
    return cls.setup_context is not cls._root.setup_context


def _physicals(level: Level, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The arguments with rows replaced by physical tensors, and for each the dimension of its batch: 0, or None."""
    physicals = map_leaves(lambda v: level.physical(v) if isinstance(v, Tensor) and is_batched_at(level, v) else v, args)
    dims = map_leaves(lambda v: 0 if isinstance(v, Tensor) and is_batched_at(level, v) else None, args)
    return physicals, dims


def _by_own_rule(cls: Any, level: Level, args: tuple[Any, ...]) -> Any:
    physicals, dims = _physicals(level, args)
    given = map_leaves(lambda v, d: v.dim_given if type(v) is Batched and v.level is level else d, args, dims)
    with lower(level):
        physicals = map_leaves(lambda v, d: v.movedim(0, d) if d else v, physicals, given)
        answer = cls.vmap(VmapInfo(level.size, level.randomness), given, *physicals)
        if not isinstance(answer, tuple) or len(answer) != 2:
            count = f", got a tuple of {len(answer)}" if isinstance(answer, tuple) else f", got {type(answer).__name__}"
            raise RuntimeError(f"Expected {cls.__name__}.vmap to return a tuple of two elements (output, out_dims){count}")
        made, out_dims = answer
        values, structure = flatten(made)
        places = broadcast_prefix(out_dims, structure)
        if places is None:
            raise RuntimeError(f"{cls.__name__}.vmap returned an incompatible (output, out_dims): {structure} and {out_dims!r}")
        moved = [v if d is None or not isinstance(v, Tensor) else v.movedim(d, 0) for v, d in zip(values, places, strict=True)]
    return unflatten([v if d is None else level.logical(v) for v, d in zip(moved, places, strict=True)], structure)


# ---- the generated rule -------------------------------------------------------------------------------------------------------------


def _by_made_rule(cls: Any, level: Level, args: tuple[Any, ...]) -> Any:
    physicals, dims = _physicals(level, args)
    with lower(level):
        made = mapped(cls, level.size, level.randomness, dims).apply(*physicals)
    return map_leaves(lambda v: level.logical(v) if isinstance(v, Tensor) else v, made)


class RowsCtx:
    """The ctx that the Function's methods get in a generated rule: they save and read rows, which are stored as physical tensors."""

    def __init__(self, ctx: Any, level: Level, ahead: bool = False) -> None:
        self.__dict__["parts"] = (ctx, level, ahead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parts[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.parts[0], name, value)

    def _kept(self, name: str, tensors: tuple[Any, ...]) -> list[Any]:
        ctx, level, _ = self.parts
        setattr(ctx, name, tuple(isinstance(t, Tensor) and is_batched_at(level, t) for t in tensors))
        return [level.physical(t) if isinstance(t, Tensor) and is_batched_at(level, t) else t for t in tensors]

    def save_for_backward(self, *tensors: Any) -> None:
        self.parts[0].save_for_backward(*self._kept("_rows_saved", tensors))

    def save_for_forward(self, *tensors: Any) -> None:
        self.parts[0].save_for_forward(*self._kept("_rows_saved_ahead", tensors))

    def mark_dirty(self, *args: Any) -> None:
        self.parts[0].mark_dirty(*map(self.parts[1].unwrapped, args))

    def mark_non_differentiable(self, *args: Any) -> None:
        self.parts[0].mark_non_differentiable(*map(self.parts[1].unwrapped, args))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        ctx, level, ahead = self.parts
        held = ctx._rows_saved_ahead if ahead else ctx._rows_saved
        return tuple(level.logical(t) if batched else t for t, batched in zip(ctx.saved_tensors, held, strict=True))


def mapped(cls: Any, size: int, randomness: str, dims: tuple[Any, ...]) -> Any:
    """A Function of physical tensors that applies the given one to each row; ``dims`` says which arguments are batched."""

    def rows(level: Level, values: Any) -> tuple[Any, ...]:
        flat = map_leaves(lambda v, d: v if d is None or v is None else level.logical(v), values, dims)
        return tuple(flat)

    def physical(level: Level, made: Any) -> Any:
        return map_leaves(lambda v: level.physical(v) if isinstance(v, Tensor) else v, made)

    def forward(*physicals: Any) -> Any:
        level = Level(size, randomness)
        with level:
            return physical(level, cls.forward(*rows(level, physicals)))

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        level = Level(size, randomness)
        with level:
            made = map_leaves(lambda v: level.logical(v) if isinstance(v, Tensor) else v, output)
            cls.setup_context(RowsCtx(ctx, level), rows(level, inputs), made)

    def backward(ctx: Any, *grads: Any) -> Any:
        level = Level(size, randomness)
        with level:
            given = [None if g is None else level.logical(g) for g in grads]
            found = cls.backward(RowsCtx(ctx, level), *given)
            found = found if isinstance(found, tuple) else (found,)
            found = tuple(None if d is None else level.physical(d) for d in found)
        batched = [d is not None and not isinstance(d, (tuple, list, dict)) for d in dims]
        return tuple(d if d is None or one else d.sum(0) for d, one in zip(found, batched, strict=True))

    def jvp(ctx: Any, *tangents: Any) -> Any:
        level = Level(size, randomness)
        with level:
            return physical(level, cls.jvp(RowsCtx(ctx, level, ahead=True), *rows(level, tangents)))

    methods = {"forward": forward, "setup_context": setup_context, "backward": backward}
    if cls.jvp is not cls._root.jvp:
        methods["jvp"] = jvp
    return type(f"Vmapped{cls.__name__}", (cls._root,), {"generate_vmap_rule": True, **{k: staticmethod(v) for k, v in methods.items()}})
