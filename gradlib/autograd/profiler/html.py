"""A self-contained HTML page with a sortable table of both passes and a zoomable timeline. page.html is its template."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from gradlib.autograd.profiler.events import Events, forward_by_seq
from gradlib.autograd.profiler.table import sides

_PAGE = Path(__file__).with_name("page.html")
_DEEPEST = 256  # lanes of a thread: browsers limit the height of a canvas


def write_page(events: Events, path: Path, title: str) -> None:
    """Write the page; it needs no network and no other file.

    Args:
        events: of a profile or a loaded file; path: the temporary file of `gradlib.files`; title: the page's heading.
    """
    # without <, so that no text can close the script element
    data = json.dumps(page_data(events), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    shown = {"TITLE": html.escape(title.encode(errors="backslashreplace").decode()), "DATA": data}
    # both in one pass, since either text may hold the other's placeholder
    page = re.sub("__(TITLE|DATA)__", lambda found: shown[found[1]], _PAGE.read_text(encoding="utf-8"))
    path.write_text(page, encoding="utf-8")


def page_data(events: Events) -> dict[str, Any]:
    """The page's data: the rows of the table, and the timeline's lanes (one for each thread and depth, one for each stream).

    A lane is a list of ``[start, duration, name, kind, partner]``; ``partner`` is the same operation in the other pass (for an operation
    the first run of its node), as ``[lane, index]``, or 0. Events nested deeper than 256 are left out.
    """
    names: dict[str, int] = {}
    lanes: dict[tuple[int, int, int, int], list[list[Any]]] = {}
    places: dict[int, tuple[tuple[int, int, int, int], int]] = {}
    for event in events:
        if event.depth < _DEEPEST:
            key = (0, event.process, event.thread, event.depth)
            _place(lanes, key, event.start, event.end - event.start, event.name, event.kind, names)
            places[id(event)] = (key, len(lanes[key]) - 1)
        for kernel in event.kernels or ():
            _place(lanes, (1, event.process, kernel.device, kernel.stream), kernel.start, kernel.duration, kernel.name, "kernel", names)
    keys = sorted(lanes)
    numbers = {key: number for number, key in enumerate(keys)}
    forward = forward_by_seq(events)
    for event in events:
        source = forward.get((event.process, event.stashed)) if event.kind == "node" else None
        if source is not None and id(event) in places and id(source) in places:
            (lane, place), (other, there) = places[id(event)], places[id(source)]
            lanes[lane][place][4] = [numbers[other], there]
            lanes[other][there][4] = lanes[other][there][4] or [numbers[lane], place]
    for key in keys:
        if key[0] == 1:
            lanes[key].sort(key=lambda item: item[0])
    return {
        "rows": [list(row) for row in sides(events)],
        "names": list(names),
        "lanes": [{"label": _label(key), "items": lanes[key]} for key in keys],
    }


_KINDS = ("op", "node", "user", "kernel")


def _place(lanes: dict[Any, list[list[Any]]], key: Any, start: float, duration: float, name: str, kind: str, names: dict[str, int]) -> None:
    number = names.setdefault(name, len(names))
    lanes.setdefault(key, []).append([round(start, 3), round(duration, 3), number, _KINDS.index(kind), 0])


def _label(key: tuple[int, int, int, int]) -> str:
    on_device, _, number, depth_or_stream = key
    if on_device:
        return f"stream {depth_or_stream}, GPU {number}"
    if depth_or_stream == _DEEPEST - 1:
        return "deeper: not shown"
    return f"thread {number}" if depth_or_stream == 0 else ""
