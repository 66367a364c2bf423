"""The current stream."""

from cupy import _order
from cupy._order import Event as Event, Stream as Stream


def get_current_stream(device_id: int = -1) -> Stream:
    return _order.current_stream(None if device_id < 0 else device_id)
