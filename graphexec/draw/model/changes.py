"""The picture of two machines: what one of them adds to the other, removes from it and changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from graphexec.draw.model.marks import SIGNS
from graphexec.draw.model.picture import Arrow, Box, Picture, caption_of, picture_of
from graphexec.draw.model.text import format_quantity, wrap_text
from graphexec.kernel.node import Edge
from graphexec.verify.difference import Delta, Difference, compare_nodes

T = TypeVar("T")

# Characters of a line that says what was changed.
_WIDTH = 38


def picture_of_changes(difference: Difference) -> Picture:
    """Return both machines in one picture, without the marks of findings.

    The parts of the second machine come in its order, and what it lacks follows its neighbour in the first one. An
    edge with another target is drawn twice: to the old one as removed, and to the new one as changed. The caption
    counts the changes, lists those of limits, findings and bounds, and has the verdict on the second machine.
    """
    before, after = picture_of(difference.before, {}), picture_of(difference.after, {})
    return Picture(
        after.start,
        _merge_boxes(difference, before, after),
        _merge_arrows(difference, before, after),
        _caption(difference),
        after.given,
    )


def _merge_boxes(difference: Difference, before: Picture, after: Picture) -> tuple[Box, ...]:
    # A table that is not complete has nodes that are only named: they are no nodes of the difference.
    old, new = ({box.name for box in picture.boxes} for picture in (before, after))
    changed = {now.name: compare_nodes(was, now) for was, now in difference.nodes.changed}

    def compare(box: Box) -> Box:
        if box.name in changed:
            notes = [line for text in changed[box.name] for line in wrap_text(text.split(), _WIDTH, len)]
            return replace(box, change="changed", notes=tuple(notes), mark=None)
        return replace(box, change=None if box.name in old else "added", mark=None)

    gone = [replace(box, change="removed", mark=None) for box in before.boxes if box.name not in new]
    return _insert(list(map(compare, after.boxes)), gone, before.boxes, lambda box: box.name)


def _merge_arrows(difference: Difference, before: Picture, after: Picture) -> tuple[Arrow, ...]:
    edges = difference.edges
    added, removed = set(map(_place, edges.added)), set(map(_place, edges.removed))
    changed = {_place(now): (was, now) for was, now in edges.changed}

    def compare(arrow: Arrow) -> Arrow:
        place = arrow.source, arrow.outcome
        if place not in changed:
            return replace(arrow, change="added" if place in added else None)
        was, now = changed[place]
        moved = (f"before: to {was.target}",) if was.target != now.target else ()
        refills = (f"before: {_resets(was)}",) if was.resets != now.resets else ()
        return replace(arrow, change="changed", notes=(*moved, *refills))

    def remove(arrow: Arrow) -> Arrow | None:
        place = arrow.source, arrow.outcome
        if place in removed:
            return replace(arrow, change="removed")
        was, now = changed.get(place, (None, None))
        if was is None or now is None or was.target == now.target:
            return None
        return replace(arrow, change="removed", notes=(f"now: to {now.target}",))

    gone = [arrow for arrow in map(remove, before.arrows) if arrow is not None]
    return _insert(list(map(compare, after.arrows)), gone, before.arrows, lambda arrow: (arrow.source, arrow.outcome))


def _place(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.outcome.__name__


def _resets(edge: Edge) -> str:
    return f"resets {', '.join(map(str, edge.resets))}" if edge.resets else "no resets"


def _insert(parts: list[T], gone: Iterable[T], before: Sequence[T], key: Callable[[T], Hashable]) -> tuple[T, ...]:
    """Put each part that is gone after its successor of the same key, or after the nearest part before it."""
    order = list(map(key, before))
    for one in gone:
        nearest = reversed(order[: order.index(key(one)) + 1])
        keys = list(map(key, parts))
        # The last one of its key.
        at = next((len(keys) - keys[::-1].index(near) for near in nearest if near in keys), 0)
        parts.insert(at, one)
    return tuple(parts)


def _caption(difference: Difference) -> tuple[str, ...]:
    parts: Mapping[str, Delta[Any]] = {"node": difference.nodes, "edge": difference.edges}
    counts = [
        f"{format_quantity(len(ones), thing)} {how}"
        for thing, delta in parts.items()
        for how, ones in (("added", delta.added), ("removed", delta.removed), ("changed", delta.changed))
        if ones
    ]
    other = [change for change in difference.changes if change.what not in ("node", "edge")]
    texts = [f"{SIGNS[change.how]} {change.what} {change.text.removesuffix('.')}." for change in other]
    if not difference:
        texts = [f"{str(difference).capitalize()}."]
    counted = (f"{', '.join(counts)}.",) if counts else ()
    # The bounds that were changed are the verdict.
    after = () if any(change.what == "bound" for change in other) else caption_of(difference.after)
    return (*counted, *texts, *after)
