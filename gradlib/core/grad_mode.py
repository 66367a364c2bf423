"""The switches of recording that users call: ``no_grad``, ``enable_grad``, ``set_grad_enabled`` and ``inference_mode``.

What they switch is state of ``modes.py``, and is set by its functions.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from gradlib.core.modes import note_pause, set_grad, set_inference, thread_state

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether operations on this thread record for backward.

    Source: torch.is_grad_enabled.
    Example:
        >>> gradlib.is_grad_enabled()
        True
    """
    return thread_state.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode.

    Source: torch.is_inference_mode_enabled.
    Example:
        >>> gradlib.is_inference_mode_enabled()
        False
    """
    return thread_state.inference


class ContextDecorator:
    """A context manager that also decorates functions, generator functions and classes' methods, entering afresh on each call."""

    def clone(self) -> Any:
        """A fresh one of the same setting; a decorated function enters one at each call."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or methods. "
                "To preserve the current behavior of class decoration, you can directly decorate the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    def _wrap_generator(self, function: Any) -> Any:
        """Wrap a generator so that the mode is on while its body runs, and off between its yields."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step: Callable[[], Any] = functools.partial(next, generator)
            try:
                while True:
                    try:
                        with self.clone():
                            value = step()
                    except StopIteration as stop:
                        return stop.value
                    try:
                        sent = yield value
                        step = functools.partial(generator.send, sent)
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step = functools.partial(generator.throw, error)
            finally:
                with self.clone():
                    generator.close()

        return wrapper


def _switch(enabled: bool) -> None:
    """``set_grad`` for the user, noted where it ends recording."""
    if set_grad(enabled) and not enabled:
        note_pause()


class _GradMode(ContextDecorator):
    enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        return mode if function is None else mode(function)

    def __init__(self, function: Any = None) -> None:
        self.previous: list[bool] = []

    def __enter__(self) -> None:
        self.previous.append(thread_state.grad_enabled)
        _switch(self.enabled)

    def __exit__(self, *exc: object) -> None:
        set_grad(self.previous.pop())


class no_grad(_GradMode):
    """Operations inside record nothing: a context manager, and a decorator (``@no_grad`` or ``@no_grad()``).

    Source: torch.no_grad.
    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with gradlib.no_grad():
        ...     x *= 2  # the leaf itself, as an optimiser does
        >>> x
        tensor([2., 2.], requires_grad=True)
    """

    enabled = False


class enable_grad(_GradMode):
    """Operations inside record again, also within ``no_grad``: a context manager and decorator.

    Source: torch.enable_grad.
    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with gradlib.no_grad(), gradlib.enable_grad():
        ...     print((x * 2).requires_grad)
        True
    """

    enabled = True


class set_grad_enabled(ContextDecorator):
    """Switch recording on or off at once; as a context manager, put it back on leaving.

    Args:
        mode: whether operations record.
    Source: torch.set_grad_enabled.
    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with gradlib.set_grad_enabled(False):
        ...     print((x * 2).requires_grad)
        False
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")
        self.mode = mode
        self.previous = [thread_state.grad_enabled]
        _switch(self.mode)

    def __call__(self, function: F) -> F:
        set_grad(self.previous.pop())  # as a decorator the switch counts inside the function only
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        """A fresh one of the same setting; a decorated function enters one at each call."""
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        if not self.previous:
            self.previous.append(thread_state.grad_enabled)
        _switch(self.mode)

    def __exit__(self, *exc: object) -> None:
        set_grad(self.previous.pop())


class inference_mode(ContextDecorator):
    """As ``no_grad``, and tensors made inside can never join a graph later: a context manager and decorator.

    Args:
        mode: False makes it do nothing.
    Source: torch.inference_mode.
    Example:
        >>> with gradlib.inference_mode():
        ...     y = gradlib.ones(2, requires_grad=True) * 2
        >>> y.requires_grad, y.is_inference()
        (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode):
            return cls()(mode)
        return super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)
        self.previous: list[tuple[bool, bool]] = []

    def clone(self) -> inference_mode:
        """A fresh one of the same setting; a decorated function enters one at each call."""
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self.previous.append((thread_state.inference, thread_state.grad_enabled))
        set_inference(self.mode)
        _switch(not self.mode)

    def __exit__(self, *exc: object) -> None:
        inference, grad = self.previous.pop()
        set_inference(inference)
        set_grad(grad)
