"""A run's sequence diagram as SVG: it needs no layout engine, no network and no font."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import final

from graphexec.draw.formats.svg import number, outline, text
from graphexec.draw.layout.font_metrics import width, wrapped
from graphexec.draw.layout.geometry import Rectangle
from graphexec.draw.layout.placement import LABEL, LEADING, LINE, TITLE
from graphexec.draw.model.picture import Look
from graphexec.draw.model.style import FONT, style
from graphexec.draw.model.words import plain
from graphexec.draw.runs.interaction import (
    Interaction,
    Item,
    Note,
    Participant,
    ParticipantKind,
    Role,
    SentMessage,
    Together,
    interaction_of,
    messages_in,
)
from graphexec.draw.runs.records import AnyRun, recording_of

_MARGIN = 20.0
_STEP = LABEL * LEADING
# A label's lines are broken here; between heads there is room, and beside a label.
_ROOM, _APART, _BESIDE = 250.0, 24.0, 44.0
_HEAD = 46.0
# Half as wide as what shows that a participant is doing something, and how far another call moves it.
_BAR, _NESTED = 5.0, 4.0
# The room between two messages, and from a frame to what stands in it.
_BETWEEN, _INSIDE = 14.0, 16.0
# The length and the half width of an arrow's tip, and half the height of a message's number.
_TIP = (9.0, 3.6)
_DOT = 8.5

# Participants look like the nodes that ask them.
_LOOKS: Mapping[Role, Look] = {
    "user": "person",
    "agent": "pure",
    "model": "model",
    "tool": "tools",
    "person": "person",
    "world": "effect",
    "function": "opaque",
}
_SAID: Mapping[ParticipantKind, str] = {"call": "asks", "reply": "answers", "failure": "goes wrong, or is cut off"}


def sequence_svg(run: AnyRun, *, most: int | None = None) -> str:
    """Draw a run as a sequence diagram; with `most`, only so many messages, of its beginning and its end.

    Each message's `<title>` says who says what to whom.
    """
    shown = interaction_of(recording_of(run), most=most)
    page = _Page(shown, _columns(shown))
    for item in shown.items:
        page.add(item)
    lines = page.finished()
    left, right = page.left - _MARGIN, page.right + _MARGIN
    legend = _legend(shown)
    wide, high = number(right - left), number(page.y + 2 * _MARGIN + 20)
    names = ", ".join(escape(plain(one.name)) for one in shown.participants)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gx" viewBox="0 0 {wide} {high}" width="{wide}" '
            f'height="{high}" role="img" font-family="{FONT}">',
            f"<desc>A sequence diagram of a run: {len(shown.messages)} messages between {names}</desc>",
            f"<style>{style()}</style>",
            f'<rect class="paper" width="{wide}" height="{high}"/>',
            f'<g transform="translate({number(-left)} {number(_MARGIN)})">',
            *lines,
            f'<g transform="translate({number(page.left)} {number(page.y + _MARGIN)})">{legend}</g>',
            "</g>",
            "</svg>\n",
        ]
    )


def _columns(shown: Interaction) -> list[float]:
    """Where the lifelines stand: so far apart that each label fits between its two."""
    heads = [_head_width(one) for one in shown.participants]
    needed: dict[tuple[int, int], float] = {}
    for message in shown.messages:
        ends = (min(message.source, message.target), max(message.source, message.target))
        wide = max((width(line, LABEL) for line in _label(message.lines)), default=0.0)
        needed[ends] = max(needed.get(ends, 0.0), wide + 2 * _BESIDE)
    columns = [0.0]
    for place in range(1, len(heads)):
        beside = columns[-1] + (heads[place - 1] + heads[place]) / 2 + _APART
        columns.append(
            max([beside, *(columns[first] + wide for (first, last), wide in needed.items() if last == place)])
        )
    return columns


def _head_width(one: Participant) -> float:
    return max(width(one.name, TITLE, bold=True), width(one.detail, LINE), 40.0) + 32


def _label(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in wrapped(line, LABEL, _ROOM)]


@final
@dataclass(slots=True)
class _Page:
    """What is drawn, from top to bottom: `y` is where the next thing begins."""

    shown: Interaction
    columns: list[float]
    y: float = _HEAD + _BETWEEN
    left: float = 0.0
    right: float = 0.0
    lines: list[str] = field(default_factory=list[str])
    bars: list[str] = field(default_factory=list[str])
    # Of each participant, since when it does something.
    active: dict[int, list[float]] = field(default_factory=dict[int, list[float]])

    def __post_init__(self) -> None:
        for one, x in zip(self.shown.participants, self.columns, strict=True):
            half = _head_width(one) / 2
            self.left, self.right = min(self.left, x - half), max(self.right, x + half)
        # Notes may stand out.
        for item in self.shown.items:
            if isinstance(item, Note) and item.kind not in _ACROSS:
                half = _note_width(item) / 2
                x = self.columns[item.over]
                self.left, self.right = min(self.left, x - half), max(self.right, x + half)
            elif isinstance(item, Together):
                self.left, self.right = min(self.left, self._frame(item)[0]), max(self.right, self._frame(item)[1])

    def add(self, item: Item) -> None:
        """Draw an item below the others."""
        match item:
            case SentMessage():
                self._message(item)
            case Together():
                self._together(item)
            case Note(kind, words) if kind in _ACROSS:
                place = Rectangle((self.left + self.right) / 2, self.y + 10, self.right - self.left, 20)
                self.lines.append(
                    _rect("cluster", place, 5) + text(place.x, place.y + 4, words, size=LABEL, kind="title")
                )
                self.y += 20 + _BETWEEN / 2
            case Note():
                self._note(item)

    def finished(self) -> list[str]:
        """Return all that is drawn, with the lifelines and, once more, the heads at the bottom."""
        self.y += _BETWEEN / 2
        for place, begun in self.active.items():
            for depth, since in enumerate(begun):
                self.bars.append(self._bar(place, depth, since, self.y))
        lifelines = [
            _line(f"M{number(x)},{number(_HEAD)}V{number(self.y)}", 'stroke-dasharray="2 4" opacity=".7"')
            for x in self.columns
        ]
        tops = [_head(one, x, _HEAD / 2) for one, x in zip(self.shown.participants, self.columns, strict=True)]
        bottoms = [
            _head(one, x, self.y + _HEAD / 2) for one, x in zip(self.shown.participants, self.columns, strict=True)
        ]
        self.y += _HEAD
        return [*lifelines, *self.bars, *tops, *bottoms, *self.lines]

    def _message(self, message: SentMessage) -> None:
        lines = _label(message.lines)
        ahead = 1 if message.target > message.source else -1
        begin = self.columns[message.source] + ahead * self._edge(message.source)
        end = self.columns[message.target] - ahead * self._edge(message.target)
        middle = (begin + end) / 2
        drawn: list[str] = []
        for line in lines:
            self.y += _STEP
            wide = width(line, LABEL)
            # Lifelines end beside it.
            drawn.append(_rect("paper", Rectangle(middle, self.y - 4, wide + 6, _STEP), 0))
            drawn.append(text(middle, self.y, line, size=LABEL, kind="label"))
        self.y += _DOT + 2 if not lines else 8
        drawn.append(_arrow(message.kind, begin, end, self.y))
        drawn.append(_number(message.number, begin, self.y))
        names = [self.shown.participants[place].name for place in (message.source, message.target)]
        title = plain(f"{message.number}. {names[0]} → {names[1]}: {message.title}")
        red = " red" if message.kind == "failure" else ""
        self.lines.append(
            f'<g class="message {message.kind}{red}" data-message="{message.number}"><title>{escape(title)}</title>'
            f"{''.join(drawn)}</g>"
        )
        if message.kind == "call":
            self.active.setdefault(message.target, []).append(self.y)
        elif begun := self.active.get(message.source):
            since = begun.pop()
            self.bars.append(self._bar(message.source, len(begun), since, self.y))
        self.y += _BETWEEN

    def _edge(self, place: int) -> float:
        """How far an arrow stays away from a lifeline."""
        return 0.0 if self.shown.participants[place].role == "user" else _BAR

    def _bar(self, place: int, depth: int, since: float, until: float) -> str:
        look = _LOOKS[self.shown.participants[place].role]
        bar = Rectangle(self.columns[place] + depth * _NESTED, (since + until) / 2, 2 * _BAR, until - since)
        return f'<g class="node {look}">{_rect("outline", bar, 1)}</g>'

    def _frame(self, item: Together) -> tuple[float, float]:
        """Where a frame begins and ends."""
        places = [place for message in messages_in(item) for place in (message.source, message.target)]
        return self.columns[min(places)] - 2 * _INSIDE, self.columns[max(places)] + 2 * _INSIDE

    def _together(self, item: Together) -> None:
        left, right = self._frame(item)
        top = self.y
        words = item.text
        tab = Rectangle(
            left + width(words, LABEL, bold=True) / 2 + 10, top + 10, width(words, LABEL, bold=True) + 20, 20
        )
        header = _rect("cluster", tab, 3) + text(tab.x, tab.y + 4, words, size=LABEL, kind="title")
        self.y += 20 + _BETWEEN / 2
        for index, branch in enumerate(item.branches):
            if index:
                self.lines.append(_dashes(left, right, self.y))
                self.y += _BETWEEN / 2
            for message in branch:
                self._message(message)
        frame = Rectangle((left + right) / 2, (top + self.y) / 2, right - left, self.y - top)
        self.lines.append(f'<g class="frame">{_rect("line", frame, 5)}{header}</g>')
        self.y += _BETWEEN

    def _note(self, note: Note) -> None:
        lines = _label([note.text])
        high = len(lines) * _STEP + 10
        place = Rectangle(self.columns[note.over], self.y + high / 2, _note_width(note), high)
        words = "".join(
            text(place.x, self.y + 5 + (row + 0.78) * _STEP, line, size=LABEL) for row, line in enumerate(lines)
        )
        kind = "node pure orange" if note.kind == "limit" else "node person"
        self.lines.append(f'<g class="note {kind}">{_rect("outline", place, 2)}{words}</g>')
        self.y += high + _BETWEEN / 2


# The notes that stand across all lifelines.
_ACROSS = ("iteration", "left out")


def _note_width(note: Note) -> float:
    return max(width(line, LABEL) for line in _label([note.text])) + 20


def _head(one: Participant, x: float, y: float) -> str:
    look = _LOOKS[one.role]
    name = text(x, y + (-1 if one.detail else TITLE * 0.36), one.name, size=TITLE, kind="title")
    detail = text(x, y + 14, one.detail, size=LINE, kind="faint") if one.detail else ""
    shape = outline(look, Rectangle(x, y, _head_width(one), _HEAD - 4))
    return f'<g class="node {look}">{shape}{name}{detail}</g>'


def _arrow(kind: ParticipantKind, begin: float, end: float, y: float) -> str:
    """The line of a message: an answer's is dashed, and a cross ends one that went wrong."""
    ahead = 1 if end > begin else -1
    dashes = "" if kind == "call" else 'stroke-dasharray="6 4"'
    line = _line(f"M{number(begin)},{number(y)}H{number(end - ahead * 6)}", f'style="stroke-width:1.4" {dashes}')
    if kind == "failure":
        x, half = end - ahead * 7, 5
        cross = f"M{number(x - half)},{number(y - half)}l10,10m0,-10l-10,10"
        return line + _line(cross, 'style="stroke-width:2"')
    root = end - ahead * _TIP[0]
    return (
        f'{line}<polygon class="tip" points="{number(end)},{number(y)} {number(root)},{number(y - _TIP[1])} '
        f'{number(root)},{number(y + _TIP[1])}"/>'
    )


def _number(count: int, x: float, y: float) -> str:
    digits = str(count)
    place = Rectangle(x, y, max(2 * _DOT, width(digits, 8.5) + 9), 2 * _DOT)
    return _rect("finish", place, _DOT) + text(x, y + 3, digits, size=8.5, kind="faint")


def _rect(kind: str, place: Rectangle, round_by: float) -> str:
    return (
        f'<rect class="{kind}" x="{number(place.left)}" y="{number(place.top)}" width="{number(place.width)}" '
        f'height="{number(place.height)}" rx="{number(round_by)}"/>'
    )


def _dashes(left: float, right: float, y: float) -> str:
    return _line(f"M{number(left)},{number(y)}H{number(right)}", 'stroke-dasharray="3 3" opacity=".7"')


def _line(path: str, more: str) -> str:
    return f'<path class="line" {more.strip()} d="{path}"/>'


def _legend(shown: Interaction) -> str:
    """What the arrows mean, of those that there are."""
    kinds = {message.kind for message in shown.messages}
    drawn: list[str] = []
    x = 0.0
    for kind, said in _SAID.items():
        if kind in kinds:
            red = ' class="red"' if kind == "failure" else ""
            drawn.append(f"<g{red}>{_arrow(kind, x, x + 40, 10)}</g>")
            drawn.append(text(x + 48, 14, said, size=LINE, kind="start faint"))
            x += 48 + width(said, LINE) + 24
    return "".join(drawn)
