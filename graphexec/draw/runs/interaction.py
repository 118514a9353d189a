"""The interaction of a run: who asked whom, and what was answered, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphexec.draw.model.words import counted, duration
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.labels import answered, asked, cut, failed, shown, tokens
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.visits import EffectRecord, Visit, limit_text, visits_of

# The places of the two who always take part.
_USER, _AGENT = 0, 1
# Characters of one line, and of a name.
_LABEL, _NAME = 60, 24

Role: TypeAlias = Literal["user", "agent", "model", "tool", "person", "world", "function"]
Key: TypeAlias = tuple[Role, str]
MessageKind: TypeAlias = Literal["call", "reply", "failure"]
# Those who are asked, from left to right.
_ROLES: tuple[Role, ...] = ("model", "tool", "person", "world", "function")
_NAMES: Mapping[Role, str] = {"model": "Model", "person": "Person", "world": "RunContext"}
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
    """A participant: the user, the agent (the machine), a model, a tool, a person, the world, or a node's function."""

    role: Role
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """An arrow from the participant at the place `source` to the one at `target`.

    A call makes its target active, a reply or a failure ends the activity of its source.
    """

    source: int
    target: int
    kind: MessageKind
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A remark over the participant at the place `over`; the beginning of an iteration is across all."""

    kind: Literal["iteration", "news", "limit", "running"]
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
    """The participants, and the items from top to bottom."""

    participants: tuple[Participant, ...]
    items: tuple[Item, ...]


def interaction_of(recording: Recording) -> Interaction:
    """Return the interaction of a run."""
    visits = visits_of(recording)
    asked_of = {
        _key(effect, visit.node): None
        for visit in visits
        for exchange in visit.exchanges
        for effect in exchange.effects
    }
    others = sorted(asked_of, key=lambda key: _ROLES.index(key[0]))
    keys: list[Key] = [("user", "User"), ("agent", "Agent"), *others]
    places = {key: place for place, key in enumerate(keys)}
    participants = tuple(_participant(key, recording.records[0]) for key in keys)
    return Interaction(participants, tuple(_items(recording, visits, places)))


def _key(effect: Record, node: str) -> Key:
    """The participant that is asked for an effect."""
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
    detail = ""
    if role in ("agent", "model"):
        detail = cut(str(start.get(role) or ""), _NAME)
    elif role in ("tool", "function"):
        detail = role
    return Participant(role, cut(name, _NAME) or "?", detail)


def _items(recording: Recording, visits: Sequence[Visit], places: Mapping[Key, int]) -> Iterator[Item]:
    yield _message("call", _USER, _AGENT, shown(_input(recording.records[0]), _LABEL))
    for visit in visits:
        if visit.iteration is not None:
            yield Note("iteration", f"iteration {visit.iteration:,}")
        for exchange in visit.exchanges:
            yield from _exchange(exchange, [places[_key(effect, visit.node)] for effect in exchange.effects])
        if visit.limit is not None:
            yield Note("limit", cut(visit.limit, _LABEL))
    yield from _ending(recording.result, noted=any(visit.limit is not None for visit in visits))


def _exchange(exchange: EffectRecord, places: Sequence[int]) -> Iterator[Item]:
    over = places[0] if len(set(places)) == 1 else _AGENT
    notes = [Note("news", cut(text, _LABEL), over) for text in exchange.news]
    if len(places) == 1:
        call, *reply = _branch(exchange, 0, places[0], timed=True)
        yield call
        yield from notes
        yield from reply
        return
    if places:
        branches = [tuple(_branch(exchange, index, place, timed=False)) for index, place in enumerate(places)]
        took = "" if exchange.replies is None else f", {duration(exchange.seconds)}"
        yield Together(f"{len(places)} at once{took}", tuple(branches))
    yield from notes


def _branch(exchange: EffectRecord, index: int, place: int, *, timed: bool) -> Iterator[SentMessage]:
    """A call, and its reply."""
    yield _message("call", _AGENT, place, asked(exchange.effects[index], _LABEL))
    reply = exchange.reply(index)
    if reply is None:
        return
    wrong = failed(reply)
    facts = (wrong, tokens(reply), duration(exchange.seconds) if timed else None)
    kind: MessageKind = "failure" if wrong else "reply"
    yield _message(kind, place, _AGENT, answered(reply, _LABEL), ", ".join(fact for fact in facts if fact))


def _ending(result: Record | None, *, noted: bool) -> Iterator[Item]:
    if result is None:
        yield Note("running", "still running")
        return
    limit = limit_text(result.get("limit"))
    if limit and not noted:
        yield Note("limit", cut(limit, _LABEL))
    output, error, status = result.get("output"), result.get("error"), str(result["status"])
    facts = [] if output is None else [shown(output, _LABEL)]
    if error:
        facts.append(cut(str(error["message"]), _LABEL))
    if status != "answered":
        facts.append(f"{status}: {cut(str(result['reason']), _NAME)}" if limit else status)
    kind: MessageKind = "reply" if status == "answered" else "failure"
    yield _message(kind, _AGENT, _USER, *facts, _totals(result))


def _message(kind: MessageKind, source: int, target: int, *lines: str) -> SentMessage:
    return SentMessage(source, target, kind, tuple(filter(None, lines)))


# Any: an input is whatever the run was given.
def _input(start: Record) -> Any:
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
    return ", ".join(filter(None, facts))
