"""Errors of communication between ranks. Source: torch.distributed's exceptions."""

from __future__ import annotations


class DistError(RuntimeError):
    """Something went wrong between ranks.

    Source: torch.distributed.DistError.
    Example:
        >>> issubclass(gradlib.distributed.DistError, RuntimeError)
        True
    """


class DistBackendError(DistError):
    """A collective could not be done: ranks disagree, one has left, or the time is over.

    Source: torch.distributed.DistBackendError.
    Example:
        >>> issubclass(gradlib.distributed.DistBackendError, gradlib.distributed.DistError)
        True
    """
