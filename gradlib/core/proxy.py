"""The base of Tensor classes with other attributes and operators than torch's, such as NumPy's or the array API's."""

from __future__ import annotations

from typing import Any, TypeVar

from gradlib.core.tensor import InferenceTensor, Tensor, wrap

_PLAIN = (Tensor, InferenceTensor)
_SLOTS = ("_array", "_float", "_meta", "_node", "_version_slot")


class Proxy(Tensor):
    """A Tensor that stands for another one: a subclass gives it other attributes, methods and operators.

    Its memory, place in the graph, gradient, tangents and version are those of the other tensor, so operations may be given either.
    """

    __slots__ = ("plain",)

    plain: Tensor
    """The Tensor that it stands for."""

    def __new__(cls, data: Any = ()) -> Any:
        return standing_for(Tensor(data), cls)


Cls = TypeVar("Cls", bound=Proxy)


def _forwarded(name: str) -> Any:
    """A slot of Tensor's as a property that reads and writes that of the other tensor."""

    def read(self: Proxy) -> Any:
        return getattr(self.plain, name)

    def write(self: Proxy, value: Any) -> None:
        if name == "_array" and not hasattr(self, "plain"):  # being made, as by pickle
            self.plain = wrap(value)
        setattr(self.plain, name, value)

    return property(read, write)


for _name in _SLOTS:
    setattr(Proxy, _name, _forwarded(_name))


def standing_for(tensor: Tensor, cls: type[Cls]) -> Cls:
    """An object of a subclass of Proxy for a tensor."""
    made = object.__new__(cls)
    made.plain = tensor
    return made


def plain(value: Any) -> Any:
    """Replace each Proxy by the tensor it stands for, also in lists and tuples."""
    if isinstance(value, Proxy):
        return value.plain
    if type(value) is list or type(value) is tuple:
        return type(value)([plain(each) for each in value])
    return value


def results_as(cls: type[Cls], result: Any, given: Any = ()) -> Any:
    """Wrap each Tensor that an operation returned in an object of this class.

    Args:
        result: a Tensor, or a tuple or list of them. Logical tensors of a vmap and other subclasses stay as they are.
        given: what the operation was given, of which each that it returns again stays the object that it is.
    """
    if type(result) in _PLAIN:
        for each in given:
            if each is result or (isinstance(each, Proxy) and each.plain is result):
                return each
        return standing_for(result, cls)
    if isinstance(result, (tuple, list)):
        made = [results_as(cls, each, given) for each in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result
