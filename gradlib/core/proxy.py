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

    __slots__ = ("wrapped",)

    wrapped: Tensor
    """The Tensor that it stands for."""

    def __new__(cls, data: Any = ()) -> Any:
        return proxy_of(Tensor(data), cls)


Cls = TypeVar("Cls", bound=Proxy)


def _forwarded(name: str) -> Any:
    """A slot of Tensor's as a property that reads and writes that of the other tensor."""

    def read(self: Proxy) -> Any:
        return getattr(self.wrapped, name)

    def write(self: Proxy, value: Any) -> None:
        if name == "_array" and not hasattr(self, "wrapped"):  # being made, as by pickle
            self.wrapped = wrap(value)
        setattr(self.wrapped, name, value)

    return property(read, write)


for _name in _SLOTS:
    setattr(Proxy, _name, _forwarded(_name))


def proxy_of(tensor: Tensor, cls: type[Cls]) -> Cls:
    """An object of a subclass of Proxy for a tensor."""
    made = object.__new__(cls)
    made.wrapped = tensor
    return made


def unwrapped(value: Any) -> Any:
    """Replace each Proxy by the tensor it stands for, also in lists and tuples."""
    if isinstance(value, Proxy):
        return value.wrapped
    if type(value) is list or type(value) is tuple:
        return type(value)([unwrapped(each) for each in value])
    return value


def results_as(cls: type[Cls], result: Any, given: Any = ()) -> Any:
    """Wrap each Tensor that an operation returned in an object of this class.

    Args:
        result: a Tensor, or a tuple or list of them. Logical tensors of a vmap and other subclasses stay as they are.
        given: what the operation was given, of which each that it returns again stays the object that it is.
    """
    if type(result) in _PLAIN:
        for each in given:
            if each is result or (isinstance(each, Proxy) and each.wrapped is result):
                return each
        return proxy_of(result, cls)
    if isinstance(result, (tuple, list)):
        made = [results_as(cls, each, given) for each in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result
