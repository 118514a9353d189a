"""The members of a body, and those that a server refuses: learned from the refusal, and then not sent.

A refusal is a response with status 400 or 422 that names a member which was sent: in a member such as `param` of the
error, or in a sentence of its message with a word of refusal, such as "unsupported", "not" or "only". A message about
the type or the range of a value is no refusal, because the user has to choose another value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, final

from graphexec.models.http.failures import ErrorReport
from graphexec.models.http.json_bodies import decode
from graphexec.models.http.json_values import JSON, to_objects
from graphexec.models.progress_reports import OptionRefused
from graphexec.runtime.calls import ForkSafeLock


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the bodies of a protocol.

    `path` is its place, such as `reasoning.effort`; `*` stands for every item of a list. It has the value of the
    `option`. The `remedy` is what to write instead of setting it in `extra_body`. If it is `refusable`, it is not sent
    to a server that refuses it, under its name or one of the `aliases`, but for values that are `kept`; `instead` is
    the name that some models want.
    """

    path: str
    option: str = ""
    remedy: str = ""
    refusable: bool = True
    instead: str = ""
    aliases: tuple[str, ...] = ()
    kept: tuple[object, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names by which a refusal may call it."""
        return frozenset({_last_part(self.path), *self.aliases})

    def find(self, body: JSON) -> list[JSON]:
        """Return the objects of a body that have it."""
        outer, is_inner, _ = self.path.partition(".")
        owners, name = to_objects(body.get(outer)) if is_inner else [body], _last_part(self.path)
        return [one for one in owners if one.get(name) is not None and one[name] not in self.kept]

    def remove(self, body: JSON) -> object:
        """Remove it from a body, with an object that is empty then, and return its last value, or `None`."""
        value: object = None
        for owner in self.find(body):
            value = owner.pop(_last_part(self.path))
        outer = self.path.partition(".")[0]
        if body.get(outer) == {}:
            del body[outer]
        return value


@dataclass(frozen=True, slots=True)
class Repair:
    """Another form of a request, for servers that refuse the usual one in a sentence that the pattern finds.

    `change` returns a body in this form. Reports name `part`, and what is sent `instead`.
    """

    part: str
    instead: str
    pattern: re.Pattern[str]
    change: Callable[[JSON], JSON]


# Characters of a message that are searched: a server may quote the whole request after its refusal.
_MAX_SEARCHED = 5_000
# Members of an error with the name of a parameter, or its path.
_PLACES = ("param", "parameter", "field")
# A line break before an indent is none: pydantic writes the text of an error below the name of what it is about.
_SENTENCE = re.compile(r"[.;!?](?:\s|$)|\n(?![ \t])")
# Addresses, and what they have.
_POINTER = re.compile(r"https?://\S+|\b(?:see|refer to|consult|visit|check|read) (?:the|our)\b[^:,]*")
# Names of other parameters, which are supported, and the first of two of which only one may be sent.
_ALTERNATIVES = re.compile(
    r"\bdid you mean\b.*|, expected one of .*|\b(?:supported|allowed|valid) \w+(?: are\b|:).*"
    r"|(?:^|, )\W{0,3}(?:please )?use .*|\S{1,80} and (?=\S{1,80} (?:cannot|can't|must not|should not) both be)"
)
# The sentence is about another part of the request, such as the user's text or the schema of a tool, in which a
# parameter's name is none.
_OTHER_SUBJECT = re.compile(
    r"\b(?:messages(?![.\[]\d)|role|content|prompt|api key|tool (?:choice )?[\"'`]|(?:tool|function|model)[ .]name)"
    r"|\bthe tools?\b|\b(?:tools?|functions?)[.\[]|function_declarations|_schema\b|\bschema (?:for|of)\b"
    r"|\bproperties[.\[/'\"]|\bunknown (?:model|tool|function)\b|\.content\b"
)
_VALUE = re.compile(
    r"\btoo (?:large|long|small|short|high|low|big|many|few)\b|\bat (?:most|least)\b|\bup to\b|\bbetween\b|\brange\b"
    r"|\bexceed|\b(?:maximum|minimum|limit|positive|negative|(?:integer|float|number|string|array|list|boolean)s?)\b"
    r"|\b(?:less|greater|more|fewer|higher|lower|larger|smaller) than\b|\bor (?:less|more)\b|\d to \d"
    r"|[<>\u2264\u2265]=? ?-?\d+(?!\d*>)|\b(?:of|valid|wrong|invalid) type\b|(?<!not )\bexpected (?!one of `)"
    r"|\bunknown variant\b|\bvalues are\b|tokens\W{1,3}\d"
)
_REFUSAL = re.compile(
    r"\b(?:un|dis|in)(?:supported|recogni[sz]ed|known|expected|available|allowed|compatible|valid)\b"
    r"|\b(?:not?|never|cannot|only|extra|extraneous|additional|deprecated|disabled|unset|reject(?:s|ed)?|removed?|fixed"
    r"|forbidden|prohibited|illegal|ignores?|omit|(?:leave|left) out|(?:request|again|retry) without|extra_forbidden)\b"
    r"|n't\b|\b(?:must|should) be (?:set to |equal to |exactly |the )*(?:1(?:\.0+)?(?![\d.]*\d)|default|omitted|null)\b"
)
# A refusal that is none of a value, whatever the other sentences say.
_PLAIN_REFUSAL = re.compile(
    r"\bun(?:supported|recogni[sz]ed|known|expected) (?:request )?(?:keyword )?(?:param(?:eter)?|argument|field|key"
    r"|name|propert(?:y|ie)|option|setting)s?\b|\bextra (?:inputs|fields)\b|\bextra_forbidden\b"
)


def find_refused_names(status: int, report: ErrorReport, sent: Iterable[str]) -> frozenset[str]:
    """Return the names, among those that were `sent`, of parameters that an error refuses; names are in snake case."""
    places = _list_places(report)
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY} or _OTHER_SUBJECT.search(places):
        return frozenset()
    message = "\n".join((report.message, *_list_details(report)))
    text = _POINTER.sub(" ", _snake_case(message[:_MAX_SEARCHED]))
    is_about_value = _VALUE.search(text) is not None and "unset" not in text
    sentences = (_ALTERNATIVES.sub(" ", one) for one in _SENTENCE.split(text))
    refusals = [
        one
        for one in sentences
        if _PLAIN_REFUSAL.search(one) or (_REFUSAL.search(one) and not is_about_value)
        if not _OTHER_SUBJECT.search(one)
    ]
    in_places = set[str]() if is_about_value else {_snake_case(_last_part(place)) for place in places.split()}
    return frozenset(name for name in sent if name in in_places or any(_mentions(one, name) for one in refusals))


def _list_places(report: ErrorReport) -> str:
    return " ".join(place for name in _PLACES if isinstance(place := report.members.get(name), str))


def _list_details(report: ErrorReport) -> Iterator[str]:
    """Yield the details of an error as text: the place of each, and its message."""
    # Any: JSON.
    details: Any = report.members.get("details")
    for one in details if isinstance(details, list) else ():  # pyright: ignore[reportUnknownVariableType]
        detail = ErrorReport.from_json(one)  # pyright: ignore[reportUnknownArgumentType]
        if place := _list_places(detail):
            yield f"{place}: {detail.message}"


def _mentions(sentence: str, name: str) -> bool:
    """Return whether a sentence has a name; "the model 'seed'", "do not stop" and "reasoning models" have none."""
    before = r"(?<!\w)(?<!model \W)(?<!engine \W)(?<!deployment \W)(?<!do not )"
    return re.search(rf"{before}{name}(?!\w| models?\b)", sentence) is not None


def _last_part(path: str) -> str:
    return path.rstrip(".").rpartition(".")[2]


def _snake_case(text: str) -> str:
    """Return a text in lower case, with names in snake case: xAI calls `reasoning_effort` `reasoningEffort`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


@final
class Refusals:
    """The members that a server has refused. The calls of one model share it, from all threads and event loops."""

    def __init__(self, known: Sequence[Member], repairs: Sequence[Repair] = ()) -> None:
        self._known = [one for one in known if one.refusable]
        self._repairs = repairs
        # Replaced as a whole, so that they can be read without the lock.
        self._refused: tuple[Member, ...] = ()
        self._repaired: tuple[Repair, ...] = ()
        self._lock = ForkSafeLock()

    def apply(self, body: JSON) -> None:
        """Remove the refused members from a body, or rename them, and repair it."""
        if self._repaired or any("*" in one.path for one in self._refused):
            decode(body)
        for repair in self._repaired:
            changed = {**repair.change(body)}
            body.clear()
            body |= changed
        for one in self._refused:
            value = one.remove(body)
            if one.instead and value is not None:
                body[one.instead] = value

    def learn(self, body: JSON, status: int, report: ErrorReport) -> list[OptionRefused]:
        """Remember the members of `body` that the server refuses, and return them; an empty list if it names none.

        `apply` removes them from the body, so a call can be repeated only as often as there are names.
        """
        decode(body)
        sent = [one for one in self._known if one.find(body)]
        named = find_refused_names(status, report, frozenset[str]().union(*(one.names for one in sent)))
        learned = [one for one in sent if not named.isdisjoint(one.names)]
        text = "\n".join([report.message[:_MAX_SEARCHED], report.code, _list_places(report)])
        fitting = (one for one in self._repairs if one not in self._repaired and one.pattern.search(text))
        repair = None if learned else next((one for one in fitting if one.change(body) != body), None)
        with self._lock:
            # In their order, in which one that is sent instead of another one may be refused, too.
            self._refused = tuple(one for one in self._known if one in self._refused or one in learned)
            self._repaired += () if repair is None else (repair,)
        if repair is not None:
            return [OptionRefused(repair.part, repair.instead)]
        return [OptionRefused(one.path.rpartition("*.")[2], one.instead) for one in learned]
