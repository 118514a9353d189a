"""A recorded run: its visits in order, and the faults that are independent of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from graphexec.effects import MODEL_CALLS, TOOL_CALLS, AskHuman, AttemptModel, CallAgent, CallModel, CallTool
from graphexec.errors import format_integer, format_value
from graphexec.kernel.effects import Perform
from graphexec.kernel.meters import is_count
from graphexec.verify.proof.flow import Flow

REPORT = "the trace was changed, or the engine has a bug; keep the trace, and report it"
WHOLE = "pass the whole output of graphexec run --json"

# Any: the values of a record are JSON.
TraceRecord: TypeAlias = Mapping[str, Any]

# The charges of effects, by their names in records. Those of users' effects are unknown.
_CHARGES: Mapping[str, Mapping[str, int]] = {
    kind.__name__: {meter.name: amount for meter, amount in kind.charges.items()}
    for kind in (CallModel, AttemptModel, CallAgent, CallTool, AskHuman, Perform)
}

# Counters that no edge resets, besides the charged and the measured meters.
_RISING = ("seconds", "tokens", "cost", "restarts")


@dataclass(frozen=True, slots=True)
class Violation:
    """A fault of a trace. `line` counts from 1; 0 is the certificate itself."""

    line: int
    fact: str
    remedy: str

    def __str__(self) -> str:
        return f"{f'line {self.line}: ' if self.line else ''}{self.fact}; {self.remedy}"


@dataclass(slots=True)
class TraceVisit:
    """A visit: its node, the amounts spent before it, its effects, and its transition (`left` is 0 without one)."""

    line: int
    node: str
    spent: TraceRecord
    left: int = 0
    outcome: str | None = None
    target: str | None = None
    # The classes of its effects, in order.
    asked: list[str] = field(default_factory=list[str])
    # The charges of nested runs, by meter.
    within: dict[str, float] = field(default_factory=dict[str, float])
    # True if a limit of an outer run stopped it; this trace does not contain that limit.
    outer: bool = False


class Trace:
    """The records of one run, read once: `visits`, `result` (`None`: cut off), and `faults`.

    The `flow` of the machine gives the meters that effects charge.
    """

    def __init__(self, records: Sequence[TraceRecord], flow: Flow) -> None:
        # The meters for which no reply reports more than was charged. Every trace has those of agents.
        self._meters = tuple(dict.fromkeys((MODEL_CALLS.name, TOOL_CALLS.name, *flow.bounded)))
        kinds = dict.fromkeys(kind for one in flow.transitions for kind in one.effect_charges)
        self._kinds = [{name: amount for name, amount in kind if name in self._meters} for kind in kinds]
        # A meter that is only measured may count fractions.
        measured = {name for kind in kinds for name, amount in kind if not amount} - {*flow.charged}
        self._whole = tuple(dict.fromkeys(("iterations", *self._meters, *flow.charged, "tokens", "restarts")))
        self._rising = tuple(dict.fromkeys((*_RISING, *self._meters, *flow.measured, *sorted(measured))))
        self.visits: list[TraceVisit] = []
        self.result: TraceRecord | None = None
        self.faults: list[Violation] = []
        # The current visit, the target of the last one, and the last amounts spent.
        self._at: TraceVisit | None = None
        self._due: str | None = None
        self._spent: TraceRecord | None = None
        # The run's id, the number of the last request, its members so far, and the unanswered members by number.
        self._run: str | None = None
        self._sequence = self._members = 0
        self._waits: dict[int, str] = {}
        for line, record in enumerate(records, 1):
            self.faults += self._numbers(line, record)
        if not self.faults:
            for line, record in enumerate(records, 1):
                self._read(line, record)

    @property
    def sound(self) -> bool:
        """True if the final amounts are complete. An interrupt may come between two records."""
        return self.result is not None and self.result["status"] != "interrupted"

    def within(self, name: str) -> float:
        """Return the charges of nested runs to a meter."""
        return sum(visit.within.get(name, 0) for visit in self.visits)

    def _fault(self, line: int, fact: str) -> None:
        self.faults.append(Violation(line, fact, REPORT))

    def _numbers(self, line: int, record: TraceRecord) -> Iterator[Violation]:
        spent: TraceRecord = record.get("spent", {})
        counts = {name: spent[name] for name in self._whole if name in spent} | spent.get("budgets", {})
        within: TraceRecord = record.get("within", {})
        counts |= {f"{name} within": count for name, count in within.items() if name in self._whole}
        for name, count in counts.items():
            if not is_count(count, whole=True):
                yield Violation(
                    line, f"{name} is {format_value(count)}; counts are whole numbers of at least 0", REPORT
                )
        for name, count in (*spent.items(), *((f"{name} within", count) for name, count in within.items())):
            if name not in (*counts, "seconds", "budgets") and not is_count(count, whole=False):
                yield Violation(line, f"the {name} is {format_value(count)}; it must be a number of at least 0", REPORT)
        for seconds in (spent.get("seconds", 0), record.get("seconds", 0)):
            if not is_count(seconds, whole=False):
                yield Violation(line, f"the seconds are {format_value(seconds)}; they must be at least 0", REPORT)

    def _read(self, line: int, record: TraceRecord) -> None:
        if self.result is not None:
            self._fault(line, f"{record['event']} comes after the result, which is the last record of a run")
        match record["event"]:
            case "start" if line > 1:
                self._fault(line, "another run begins here, but a trace has one run")
            case "entered":
                self._take_entered(line, record)
            case "asked":
                self._take_asked(line, record)
            case "answered":
                self._take_answered(line, record)
            case "moved":
                self._take_moved(line, record)
            case "result":
                self.result = record
                if self.sound:
                    self._check_charges(line, record["spent"])
                elif self.visits:
                    # The final amounts may be as old as the last entry.
                    self._rises(line, self.visits[-1].spent, record["spent"])
            case "start" | "reported" | "alive" | "failed":
                pass
            case event:
                self._fault(line, f"{format_value(event)} is not an event of a run")

    def _take_entered(self, line: int, record: TraceRecord) -> None:
        node, spent = record["node"], record["spent"]
        if self._spent is None:
            self._first(line, spent)
        else:
            self._check_charges(line, spent)
        if self._at is not None:
            self._fault(line, f"{node} is entered, but {self._at.node} was not left")
        elif self._due is not None and self._due != node:
            self._fault(line, f"{node} is entered, but {self._due} was due")
        self._at, self._waits, self._spent = TraceVisit(line, node, spent), {}, spent
        self.visits.append(self._at)

    def _first(self, line: int, spent: TraceRecord) -> None:
        counts = {name: spent.get(name, 0) for name in self._whole} | spent["budgets"]
        if any(counts.values()):
            amounts = ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
            self._fault(line, f"the run begins with {amounts} spent")

    def _take_asked(self, line: int, record: TraceRecord) -> None:
        node, (effect,) = record["node"], _effect_names(record["effects"])
        if self._at is None or self._at.node != node:
            self._fault(line, f"{node} asks for {effect}, but the run is not at this node")
            return
        sequence, member = self._call(line, record)
        if (sequence, member) == (self._sequence + 1, 0):
            if self._waits:
                self._fault(line, f"{node} asks for {effect} before {_join(self._waits.values())} is answered")
            self._sequence, self._members, self._waits = sequence, 0, {}
        elif (sequence, member) != (self._sequence, self._members) or not self._members:
            due = f"{self._sequence}.{self._members} or " if self._members else ""
            fact = f"{node} asks for {effect} as {sequence}.{member}, but {due}{self._sequence + 1}.0 was due"
            self._fault(line, fact)
            return
        self._members += 1
        self._at.asked.append(effect)
        self._waits[member] = effect

    def _take_answered(self, line: int, record: TraceRecord) -> None:
        node, (effect,) = record["node"], _effect_names(record["replies"])
        if self._at is None or self._at.node != node:
            self._fault(line, f"{node} is answered, but the run is not at this node")
            return
        sequence, member = self._call(line, record)
        waits = self._waits.pop(member, None) if sequence == self._sequence else None
        if waits is None:
            earlier = 0 < sequence < self._sequence or (sequence == self._sequence and member < self._members)
            why = "which was answered before" if earlier else "which was not asked for"
            self._fault(line, f"{node} is answered {effect} as {sequence}.{member}, {why}")
        elif waits != effect:
            self._fault(line, f"{node} is answered {effect}, but waits for {waits}")
        for name, count in record.get("within", {}).items():
            self._at.within[name] = self._at.within.get(name, 0) + count
        self._at.outer = self._at.outer or _is_outer(record["replies"][0].get("value"))
        self._check_charges(line, record["spent"], closed=False)

    def _call(self, line: int, record: TraceRecord) -> tuple[int, int]:
        """Return the numbers of the request and of the member that a record is about."""
        call = record["call"]
        self._run = self._run or call["run"]
        if call["run"] != self._run:
            self._fault(line, f"the call belongs to the run {call['run']}, but earlier calls to {self._run}")
        for name in ("sequence", "member"):
            if not is_count(call[name], whole=True):
                self._fault(line, f"the {name} of the call is {format_value(call[name])}, not a number")
        return call["sequence"], call["member"]

    def _take_moved(self, line: int, record: TraceRecord) -> None:
        node = record["node"]
        if self._at is None or self._at.node != node:
            self._fault(line, f"{node} is left, but the run is not at this node")
            return
        if self._waits:
            self._fault(line, f"{node} is left before {_join(self._waits.values())} is answered")
        self._at.left, self._at.outcome, self._at.target = line, record["outcome"], record["target"]
        self._at.outer = self._at.outer or _is_outer(record.get("value"))
        self._due = record["target"]
        self._at, self._waits = None, {}

    def _check_charges(self, line: int, spent: TraceRecord, *, closed: bool = True) -> None:
        """Compare the charges with the effects, and the clock with its last time.

        Until the visit is `closed`, charges may include members that have not begun, and nested runs.
        """
        if not self.visits or self._spent is None:
            return
        visit = self.visits[-1]
        self._rises(line, self._spent, spent)
        self._spent = spent
        known = [_CHARGES[effect] for effect in visit.asked if effect in _CHARGES]
        unknown = len(visit.asked) - len(known)
        # If an error ended the run, the amounts may leave out the last request.
        open_ = self.result is not None and self._at is not None
        counted = {name: spent.get(name, 0) - visit.spent.get(name, 0) for name in self._meters}
        least = {name: sum(charges.get(name, 0) for charges in known) + visit.within.get(name, 0) for name in counted}
        for name, count in counted.items():
            largest = max((kind.get(name, 0) for kind in self._kinds), default=0)
            most = least[name] + unknown * largest if closed and not open_ else count
            if not (0 if open_ else least[name]) <= count <= most:
                meter = name.replace("_", " ")
                self._fault(line, f"{visit.node} asked for {show(least[name])} {meter}, but {show(count)} are counted")
        if not closed or open_:
            return
        most = sum(least.values()) + unknown * max((sum(kind.values()) for kind in self._kinds), default=0)
        if sum(counted.values()) > most and not any(one.line == line for one in self.faults):
            self._fault(line, f"{visit.node} asked for {len(visit.asked):,} effects, but more calls are counted")

    def _rises(self, line: int, before: TraceRecord, after: TraceRecord) -> None:
        for name in self._rising:
            was, now = before.get(name, 0), after.get(name, 0)
            if now < was:
                self._fault(line, f"{name} goes back from {show(was)} to {show(now)}")


def _effect_names(records: Sequence[TraceRecord]) -> list[str]:
    return [one["effect"] for one in records]


def _is_outer(value: Any) -> bool:
    """Return whether an outcome or a reply says that a limit of an outer run stopped it."""
    match value:
        case {"limit": str(), "outer": outer}:
            return outer is True
        case dict():
            # Type checkers do not know the members of an arbitrary value.
            fields = cast("TraceRecord", value).values()
            return any(isinstance(one, dict) and "limit" in one and _is_outer(one) for one in fields)
        case _:
            return False


def _join(effects: Iterable[str]) -> str:
    return ", ".join(effects)


def show(number: float) -> str:
    """Format a whole number with commas, and any other number with three decimals."""
    return format_integer(int(number), ",") if number == int(number) else f"{number:,.3f}".rstrip("0")
