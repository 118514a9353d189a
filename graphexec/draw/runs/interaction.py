"""The interaction of a run: who asked whom, and what was answered, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeAlias

from graphexec.draw.model.words import counted, duration
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import answered, asked, cut, failed, shown, tokens
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.visits import EffectRecord, Visit, limit_text, visits_of
from graphexec.errors import InputError

# The places of the two who always take part.
_USER, _AGENT = 0, 1
# A diagram has a first and a last message.
_LEAST = 2
# Characters of one line, and of the whole text that a title holds.
_LABEL, _TITLE, _NAME = 60, 1_000, 24

Role: TypeAlias = Literal["user", "agent", "model", "tool", "person", "world", "function"]
Key: TypeAlias = tuple[Role, str]
ParticipantKind: TypeAlias = Literal["call", "reply", "failure"]
# Who stands left of whom.
_ROLES: tuple[Role, ...] = ("user", "agent", "model", "tool", "person", "world", "function")
_NAMES: Mapping[Role, str] = {
    "user": "User",
    "agent": "Agent",
    "model": "Model",
    "person": "Person",
    "world": "RunContext",
}
# What asks whom; an effect of one's own asks the world.
_ASKED: Mapping[str, Role] = {
    "CallModel": "model",
    "CallAgent": "model",
    "CallTool": "tool",
    "AskHuman": "person",
    "Perform": "function",
}


@dataclass(frozen=True, slots=True)
class Participant:
    """Who takes part: the user, the agent (the machine), a model, a tool, a person, the world, or a node's function."""

    role: Role
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """An arrow: `number` counts from 1, `source` and `target` are places among the participants.

    A call makes its target active, a reply or a failure ends what its source was doing. `title` holds more of what was
    said than the lines.
    """

    number: int
    source: int
    target: int
    kind: ParticipantKind
    lines: tuple[str, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Note:
    """A remark over the participant at the place `over`; an iteration's beginning, and what is left out, are across."""

    kind: Literal["iteration", "left out", "news", "limit", "running"]
    text: str
    over: int = _AGENT


@dataclass(frozen=True, slots=True)
class Together:
    """Calls made at once, each with its reply, if it had one."""

    text: str
    branches: tuple[tuple[SentMessage, ...], ...]


Item: TypeAlias = SentMessage | Note | Together


@dataclass(frozen=True, slots=True)
class Interaction:
    """What a sequence diagram shows, for whatever draws it: who takes part, and what happens, from top to bottom."""

    participants: tuple[Participant, ...]
    items: tuple[Item, ...]

    @property
    def messages(self) -> tuple[SentMessage, ...]:
        """All messages, in order."""
        return tuple(message for item in self.items for message in messages_in(item))


def interaction_of(recording: Recording, *, most: int | None = None) -> Interaction:
    """Return what a run's sequence diagram shows; with `most`, only so many messages, of its beginning and its end.

    Raises `InputError` for fewer than two.
    """
    if most is not None and most < _LEAST:
        raise InputError(f"most is {most!r}, which leaves no first and last message; give 2 or more, or None for all")
    visits = visits_of(recording)
    keys = _keys(visits)
    participants = tuple(_participant(key, recording.records[0]) for key in keys)
    items = list(_Teller({key: place for place, key in enumerate(keys)}).items(recording, visits))
    return Interaction(participants, tuple(items if most is None else _shortened(items, most)))


def messages_in(item: Item) -> tuple[SentMessage, ...]:
    """The messages of an item, in order."""
    match item:
        case SentMessage():
            return (item,)
        case Together(_, branches):
            return tuple(message for branch in branches for message in branch)
        case Note():
            return ()


def _keys(visits: Sequence[Visit]) -> list[Key]:
    """Who takes part, from left to right."""
    asked_of = {
        _key(effect, visit.node): None
        for visit in visits
        for exchange in visit.exchanges
        for effect in exchange.effects
    }
    others = sorted(asked_of, key=lambda key: _ROLES.index(key[0]))
    return [("user", _NAMES["user"]), ("agent", _NAMES["agent"]), *others]


def _key(effect: Record, node: str) -> Key:
    """Who is asked for an effect."""
    role = _ASKED.get(effect["effect"], "world")
    match role:
        case "tool":
            return role, str(effect["tool"])
        case "function":
            return role, node
        case _:
            return role, _NAMES[role]


def _participant(key: Key, start: Record) -> Participant:
    role, name = key
    match role:
        case "agent" | "model":
            detail = cut(str(start.get(role) or ""), _NAME)
        case "tool" | "function":
            detail = role
        case _:
            detail = ""
    return Participant(role, cut(name, _NAME) or "?", detail)


class _Teller:
    """Tells a run as messages and notes."""

    __slots__ = ("_numbers", "_places")

    def __init__(self, places: Mapping[Key, int]) -> None:
        self._numbers = count(1)
        self._places = places

    def items(self, recording: Recording, visits: Sequence[Visit]) -> Iterator[Item]:
        """Yield all that happens."""
        given = _given(recording.records[0])
        yield self._message("call", _USER, _AGENT, (shown(given, _LABEL),), shown(given, _TITLE))
        for visit in visits:
            if visit.iteration is not None:
                yield Note("iteration", f"iteration {visit.iteration:,}")
            for exchange in visit.exchanges:
                yield from self._exchange(exchange, visit.node)
            if visit.limit is not None:
                yield Note("limit", cut(visit.limit, _LABEL))
        yield from self._ending(recording.result, noted=any(visit.limit is not None for visit in visits))

    def _exchange(self, exchange: EffectRecord, node: str) -> Iterator[Item]:
        effects = exchange.effects
        places = [self._places[_key(effect, node)] for effect in effects]
        notes = [
            Note("news", cut(text, _LABEL), places[0] if len(set(places)) == 1 else _AGENT) for text in exchange.news
        ]
        if len(effects) == 1:
            call, *reply = self._branch(exchange, 0, places[0], timed=True)
            yield call
            yield from notes
            yield from reply
            return
        if effects:
            branches = [tuple(self._branch(exchange, index, place, timed=False)) for index, place in enumerate(places)]
            took = "" if exchange.replies is None else f", {duration(exchange.seconds)}"
            yield Together(f"{len(effects)} at once{took}", tuple(branches))
        yield from notes

    def _branch(self, exchange: EffectRecord, index: int, place: int, *, timed: bool) -> Iterator[SentMessage]:
        effect = exchange.effects[index]
        yield self._message("call", _AGENT, place, (asked(effect, _LABEL),), asked(effect, _TITLE))
        replies = exchange.replies
        if not replies:
            return
        # The deadline cut all of them with one word.
        reply = replies[min(index, len(replies) - 1)]
        wrong = failed(reply)
        facts = (wrong, tokens(reply), duration(exchange.seconds) if timed else None)
        lines = (answered(reply, _LABEL), ", ".join(fact for fact in facts if fact))
        yield self._message("failure" if wrong else "reply", place, _AGENT, lines, answered(reply, _TITLE))

    def _ending(self, result: Record | None, *, noted: bool) -> Iterator[Item]:
        if result is None:
            yield Note("running", "still running")
            return
        limit = limit_text(result.get("limit"))
        if limit and not noted:
            yield Note("limit", cut(limit, _LABEL))
        output, error = result.get("output"), result.get("error")
        facts = [] if output is None else [shown(output, _LABEL)]
        title = "" if output is None else shown(output, _TITLE)
        if error:
            facts.append(cut(str(error["message"]), _LABEL))
            title = cut(str(error["message"]), _TITLE)
        if result["status"] != "answered":
            facts.append(f"{result['status']}: {cut(str(result['reason']), _NAME)}" if limit else str(result["status"]))
        kind: ParticipantKind = "reply" if result["status"] == "answered" else "failure"
        yield self._message(kind, _AGENT, _USER, (*facts, _totals(result)), title or facts[-1])

    def _message(
        self, kind: ParticipantKind, source: int, target: int, lines: Sequence[str], title: str
    ) -> SentMessage:
        return SentMessage(next(self._numbers), source, target, kind, tuple(line for line in lines if line), title)


# Any: an input is whatever the run was given.
def _given(start: Record) -> Any:
    match start.get("input"):
        case {"input": given}:
            return given
        case None:
            return "a run begins"
        case given:
            return given


def _totals(result: Record) -> str:
    spent: Record = result.get("spent") or {}
    seconds = result.get("seconds", spent.get("seconds"))
    facts = [
        counted(spent.get("model_calls", 0), "model call"),
        counted(spent["tokens"], "token") if spent.get("tokens") else "",
        "" if seconds is None else duration(seconds),
    ]
    return ", ".join(fact for fact in facts if fact)


def _shortened(items: Sequence[Item], most: int) -> Iterator[Item]:
    """The beginning and the end, with what is left out between them in a word; no call is parted from its reply."""
    counts = [len(messages_in(item)) for item in items]
    if sum(counts) <= most:
        yield from items
        return
    first = _fitting(counts, most - most // 2)
    while first > 1 and (_goes_on(items[first]) or isinstance(items[first - 1], Note)):
        first -= 1
    last = len(items) - _fitting(counts[::-1], most // 2)
    while last < len(items) and _goes_on(items[last]):
        last += 1
    yield from items[:first]
    yield Note("left out", f"{counted(sum(counts[first:last]), 'message')} left out")
    yield from items[last:]


def _goes_on(item: Item) -> bool:
    """Whether it belongs to the call before it."""
    match item:
        case SentMessage():
            return item.kind != "call" and item.target == _AGENT
        case Note():
            return item.kind == "news"
        case Together():
            return False


def _fitting(counts: Sequence[int], most: int) -> int:
    """How many of the first items have so many messages at most."""
    taken = 0
    for index, many in enumerate(counts):
        taken += many
        if taken > most:
            return index
    return len(counts)
