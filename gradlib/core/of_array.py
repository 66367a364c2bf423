"""What a tensor tells of its array: dtype, shape and place, and its values as Python and NumPy objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Number
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlib.backend import array as arrays, dlpack, dtype as dtypes, limits
from gradlib.backend.array import Array
from gradlib.backend.device import device, device_of
from gradlib.core.modes import thread_state
from gradlib.core.node import Node

if TYPE_CHECKING:
    from gradlib.core.methods import Methods  # what operations put on Tensor, as ci/stubs.py writes it down

    _of_array = property
else:
    Methods = object

    def _of_array(getter: Callable[[Any], Any]) -> property:
        """A property that a tensor's array has by the same name; read without a call of Python, since every operation reads some."""
        return property(attrgetter(f"_array.{getter.__name__}"), doc=getter.__doc__)


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes that also counts elements.

    Source: torch.Size.
    Example:
        >>> gradlib.ones(2, 3).shape.numel()
        6
    """

    def numel(self) -> int:
        """The product of the sizes."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"gradlib.Size({list(self)})"


class OfArray(Methods):
    """The base of Tensor with what follows from its array alone."""

    __slots__ = ()

    _array: Array
    _node: Node | None

    @property
    def shape(self) -> Size:
        """The size of each dimension. Source: torch.Tensor.shape."""
        return Size(self._array.shape)

    @_of_array
    def dtype(self) -> np.dtype:
        """The type of the elements, one of NumPy's. Source: torch.Tensor.dtype."""
        return self._array.dtype

    @property
    def device(self) -> device:
        """The device on which the elements lie. Source: torch.Tensor.device."""
        return device_of(self._array)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie on a GPU. Source: torch.Tensor.is_cuda."""
        return arrays.device_index(self._array) is not None

    @_of_array
    def ndim(self) -> int:
        """The number of dimensions. Source: torch.Tensor.ndim."""
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        """The bytes of one element. Source: torch.Tensor.itemsize."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements. Source: torch.Tensor.nbytes."""
        return self._array.size * self._array.itemsize

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size along ``dim``."""
        return self.shape if dim is None else self._array.shape[dim]

    def dim(self) -> int:
        """The number of dimensions. Source: torch.Tensor.dim."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """How many elements there are."""
        return int(self._array.size)

    nelement = numel

    def element_size(self) -> int:
        """The bytes of one element. Source: torch.Tensor.element_size."""
        return self._array.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """The steps between neighbours along each dimension, in elements (torch's unit; NumPy counts bytes)."""
        strides = tuple(step // self._array.itemsize for step in self._array.strides)
        return strides if dim is None else strides[dim]

    def data_ptr(self) -> int:
        """The address of the first element."""
        return arrays.address(self._array)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie row after row, or in the order of a memory format."""
        array = self._array
        if memory_format is limits.channels_last or memory_format is limits.channels_last_3d:
            order = (0, 2, 3, 1) if memory_format is limits.channels_last else (0, 2, 3, 4, 1)
            return array.ndim == len(order) and bool(array.transpose(order).flags.c_contiguous)
        limits.check_format("is_contiguous", memory_format)
        return bool(array.flags.c_contiguous)

    @property
    def layout(self) -> limits.layout:
        """The memory layout of the elements: always ``strided``."""
        return limits.strided

    @property
    def is_cpu(self) -> bool:
        """Whether the elements lie on the host. Source: torch.Tensor.is_cpu."""
        return not self.is_cuda

    def get_device(self) -> int:
        """The number of its CUDA device, -1 on the host."""
        index = arrays.device_index(self._array)
        return -1 if index is None else index

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers. Source: torch.Tensor.is_signed."""
        return self._array.dtype.kind not in "ub"

    def is_conj(self) -> bool:
        """False: a conjugate is computed at once here, where torch may only mark it."""
        return False

    def is_neg(self) -> bool:
        """False: a negative is computed at once here, where torch may only mark it."""
        return False

    def is_nonzero(self) -> bool:
        """Whether the only element is not zero. Raises: RuntimeError when there is not exactly one."""
        return bool(self)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point one. Source: torch.Tensor.is_floating_point."""
        return dtypes.is_floating_point(self._array.dtype)

    def is_complex(self) -> bool:
        """Whether the dtype is a complex one. Source: torch.Tensor.is_complex."""
        return self._array.dtype.kind == "c"

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a NumPy array that shares this memory.

        Args:
            force: also detach and copy from a CUDA device.
        Raises: TypeError for a tensor on a CUDA device, RuntimeError for one that requires a gradient (while recording), unless forced.
        Source: torch.Tensor.numpy.
        """
        if self.is_cuda and not force:
            raise TypeError(f"can't convert {self.device} tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
        if self._node is not None and thread_state.grad_enabled and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return arrays.move(self._array, None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The interface by which libraries that read NumPy's arrays share this memory without a copy, such as Pillow's ``Image.fromarray``.

        Raises: AttributeError for a tensor on a CUDA device, and for bfloat16, which the protocol has no name for; RuntimeError for a
            tensor that requires a gradient (while recording).
        Source: version 3 of NumPy's array interface.
        """
        if type(self._array) is not np.ndarray or self._array.dtype.kind == "V":
            raise AttributeError(f"a tensor of dtype {self.dtype} on {self.device} has no __array_interface__")
        return self.numpy().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The interface by which CuPy, Numba and PyTorch share this memory: ``cupy.asarray(tensor)`` copies nothing.

        Raises: AttributeError for a tensor in host memory, RuntimeError for one that requires a gradient.
        Source: torch.Tensor.__cuda_array_interface__; version 3 of the CUDA array interface.
        """
        if not self.is_cuda:
            raise AttributeError(f"Can't get __cuda_array_interface__ of a tensor on {self.device}. Use Tensor.cuda() to move it first.")
        if self._node is not None:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ of a Tensor that requires grad. Use tensor.detach() first; or, where a function of "
                "CuPy's asked, NumPy's of the same name, which stays on the device and differentiates."
            )
        return self._array.__cuda_array_interface__

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        """A capsule of this memory for other libraries: ``torch.from_dlpack(tensor)`` copies nothing.

        What they write there is not seen by the version counter.

        Args:
            stream: the consumer's CUDA stream, which waits for the current one; None or -1 for host memory.
            max_version: the newest version of DLPack that the consumer knows; from (1, 0) on, read-only memory says so.
            dl_device: where the consumer wants it.
            copy: True for a copy, False never to copy, which memory with negative strides needs.
        Raises: BufferError for a tensor that requires a gradient, and for read-only memory where that cannot be said.
        Source: torch.Tensor.__dlpack__.
        """
        if self._node is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if stream is not None and not isinstance(stream, int):
            raise TypeError(f"stream must be ``int`` or ``none``; got {type(stream).__name__}")
        return dlpack.exported(self._array, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (kind of device, index) of this memory. Source: torch.Tensor.__dlpack_device__."""
        return dlpack.device_of(self._array)

    def item(self) -> Any:
        """The only element as a Python number. Raises: RuntimeError when there is not exactly one."""
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self._array.item() if self._array.dtype.kind != "V" else float(arrays.move(self._array, None).reshape(()))

    def tolist(self) -> Any:
        """The values as nested Python lists, or a number for a 0-d tensor."""
        host = arrays.move(self._array, None)
        return (host.astype(np.float32) if host.dtype.kind == "V" else host).tolist()

    def __bool__(self) -> bool:
        if self._array.size != 1:
            kind = "no values" if self._array.size == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(self.item())

    def _only(self) -> Any:
        """``item`` as Python's conversions ask for it. Raises: ValueError when there is not exactly one element."""
        if self._array.size != 1:
            raise ValueError(f"only one element tensors can be converted to Python scalars, got shape {list(self._array.shape)}")
        return self.item()

    def _real(self, kind: str) -> Any:
        """``_only`` without an imaginary part of zero; another is a RuntimeError. ``kind``: C++'s name of the type, as in torch's error."""
        number = self._only()
        if type(number) is not complex:
            return number
        if number.imag:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow: {number} has an imaginary part")
        return number.real

    def __float__(self) -> float:
        if self._node is not None:
            _warn_of_scalar()
        return float(self._real("double"))

    def __int__(self) -> int:
        if self._node is not None:
            _warn_of_scalar()
        return int(self._real("int64_t"))

    def __complex__(self) -> complex:
        return complex(self._only())

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        if not (isinstance(value, (OfArray, Number, np.generic)) or arrays.is_array(value)):
            raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}.")
        if isinstance(value, OfArray):
            value = value.to(self.device)
        equal: Any = self == value  # by the operation, which brings both to torch's common dtype
        return bool(equal.any())

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._array.ndim == 0 else object.__format__(self, spec)


def _warn_of_scalar() -> None:
    """As torch does: an array of NumPy's that is filled element by element takes numbers, which no gradient follows."""
    warnings.warn(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using tensor.detach() first. "
        "Where its gradient is needed, keep the tensor: a list of tensors that is stacked passes it on, an array that is filled does not.",
        UserWarning,
        stacklevel=3,
    )
