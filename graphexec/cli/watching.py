"""`--watch`: the machine itself on a terminal, whose nodes light up while a run goes through them."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.text import Text

from graphexec.cli.following import Reached, Setup
from graphexec.cli.meters import bars, unlimited
from graphexec.cli.terminal import Symbols, clean
from graphexec.cli.trace import TracePrinter, asked
from graphexec.draw.model.picture import Arrow, Picture, picture_of
from graphexec.draw.model.words import duration
from graphexec.executor.result import Ending
from graphexec.kernel.events import Answered, Asked, Entered, Event, Moved, Reported
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.node import END
from graphexec.messages import ReplyDelta

# Pictures a second: a person sees them as moving.
_RATE = 10
# Columns that the longest names get; what is longer is cut.
_NAME, _OUTCOME = 32, 24
# The last line of the terminal stays free, for the cursor.
_FREE = 1


def watching(out: TextIO, err: TextIO) -> TracePrinter:
    """Return the watcher that shows the machine; where `err` is no terminal that can, the trace, and say so."""
    watch = Watch(out, err)
    if watch.screen.is_terminal and not watch.screen.is_dumb_terminal:
        return watch
    print("graphexec: --watch needs a terminal; here is the trace", file=err)
    return TracePrinter(out, err)


class Watch(TracePrinter):
    """A watcher that shows the machine while the run goes through it, then what the trace ends with."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self._live: Live | None = None
        self._scene: Scene | None = None

    def begun(self, setup: Setup) -> None:
        """Show the machine."""
        super().begun(setup)
        executor = setup.executor
        self._scene = Scene(picture_of(executor.verify()), executor.limits, self._symbols)
        self._live = Live(self._scene, console=self.screen, refresh_per_second=_RATE, vertical_overflow="crop")
        self._live.start(refresh=True)

    def happened(self, event: Event[Ending]) -> None:
        """Show where the run is."""
        if self._scene is not None:
            self._scene.happened(event)

    def ended(self, ending: Ending, reached: Reached) -> None:
        """Leave the machine as it was left, and print the answer and the cost."""
        self._stop()
        super().ended(ending, reached)

    def interrupted(self, reached: Reached) -> None:
        """Leave the machine as it is, and say how far the run came."""
        self._stop()
        super().interrupted(reached)

    def failed(self, error: Exception, reached: Reached) -> None:
        """Leave the machine as it is, and say what went wrong."""
        self._stop()
        super().failed(error, reached)

    def _stop(self) -> None:
        if self._live is None or self._scene is None:
            return
        self._scene.over = True
        # It puts the streams back that it found, which after Ctrl-C are others.
        stream = sys.stdout
        self._live.stop()
        if not isinstance(stream, FileProxy):
            sys.stdout = stream
        self._live = None
        self._parted = False


class Scene:
    """The machine as it is at a moment, in as many lines as the terminal has."""

    def __init__(self, machine: Picture, limits: Limits, symbols: Symbols) -> None:
        self._machine = machine
        self._limits = limits
        self._symbols = symbols
        self._at = machine.start
        self._last: Moved | None = None
        self._entries: Counter[str] = Counter()
        self._taken: Counter[tuple[str, str]] = Counter()
        self._spent = Spent()
        self._waits: tuple[str, float] | None = None
        self._notice = ""
        self._name = min(max(len(box.name) for box in machine.boxes), _NAME)
        self._outcome = min(max((len(arrow.outcome) for arrow in machine.arrows), default=0), _OUTCOME)
        # Whether nothing is waited for any more.
        self.over = False

    def happened(self, event: Event[Ending]) -> None:
        """Be where the run is."""
        match event:
            case Entered(node, _, spent):
                self._at, self._spent = node, spent
                self._entries[node] += 1
            case Asked(_, effect):
                self._waits = (asked(effect), time.monotonic())
            case Reported(news=news) if not isinstance(news, ReplyDelta):
                self._notice = " ".join(clean(str(news)).split())
            case Answered(_, _, _, _, spent):
                self._spent, self._waits, self._notice = spent, None, ""
            case Moved(node, outcome, target):
                self._last, self._at = event, target
                self._taken[node, type(outcome).__name__] += 1
            case _:
                pass

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the most telling view that fits."""
        room = console.size.height - _FREE
        state = list(self._state())
        views = (self._edges, self._nodes)
        machine = next((lines for view in views if len(lines := list(view())) + len(state) + 1 <= room), None)
        if machine is None:
            machine = self._around(max(room - len(state) - 1, 0))
        for line in [*machine, Text(), *state][: max(room, 1)]:
            line.no_wrap, line.overflow = True, "crop"
            yield line

    def _edges(self) -> Iterator[Text]:
        """Every node with its edges."""
        for box in self._machine.boxes:
            yield self._node(box.name)
            for arrow in self._machine.arrows:
                if arrow.source == box.name:
                    yield self._edge(arrow)
        if any(arrow.target == END.name for arrow in self._machine.arrows):
            yield self._node(END.name)

    def _nodes(self) -> Iterator[Text]:
        """Every node with the edge by which it was left last."""
        return (self._node(box.name, told=True) for box in self._machine.boxes)

    def _around(self, room: int) -> list[Text]:
        """The nodes before and after the one where the run is."""
        lines = list(self._nodes())
        names = [box.name for box in self._machine.boxes]
        here = names.index(self._at) if self._at in names else len(names) - 1
        first = max(0, min(here - room // 2, len(lines) - room))
        return lines[first : first + room]

    def _node(self, name: str, *, told: bool = False) -> Text:
        count = self._entries[name]
        here = name == self._at
        sign = self._symbols.here if here else self._symbols.node
        style = "bold green" if here and name == END.name else "bold cyan" if here else "bold" if count else "dim"
        line = Text(f" {sign} {name[:_NAME]:{self._name}}", style)
        line.append(self._times(count), "dim")
        if told and self._last is not None and self._last.node == name:
            way = (
                f"  {self._symbols.arrow} {type(self._last.outcome).__name__} {self._symbols.arrow} {self._last.target}"
            )
            line.append(way, "green")
        return line

    def _edge(self, arrow: Arrow) -> Text:
        count = self._taken[arrow.source, arrow.outcome]
        last = self._last
        new = last is not None and (last.node, type(last.outcome).__name__) == (arrow.source, arrow.outcome)
        sign = self._symbols.limit if arrow.exhausts else self._symbols.arrow
        signs = max(len(self._symbols.arrow), len(self._symbols.limit))
        style = "bold green" if new else "none" if count else "dim"
        way = f"     {arrow.outcome[:_OUTCOME]:{self._outcome}} {sign:>{signs}} {arrow.target[:_NAME]:{self._name}}"
        return Text(way, style).append(self._times(count), "dim")

    def _times(self, count: int) -> str:
        return f" {self._symbols.times}{count:,}" if count else ""

    def _state(self) -> Iterator[Text]:
        """What is waited for, what was told meanwhile, and what is spent of each limit."""
        if self.over:
            # What is spent without a limit is told by the last line of all.
            yield from bars(self._spent, self._limits, self._symbols)
            return
        waits, spent = self._waits, self._spent
        if waits is None:
            yield Text(f" at {self._at}", "dim")
        else:
            waited = time.monotonic() - waits[1]
            spent = dataclasses.replace(spent, seconds=spent.seconds + waited)
            yield Text(f" {waits[0]} ", "cyan").append(duration(waited), "bold")
        if self._notice:
            yield Text(f" {self._notice}", "yellow")
        yield from bars(spent, self._limits, self._symbols)
        yield unlimited(spent, self._limits, self._symbols)
