"""Optional parameters that a server refuses, as reasoning models do: learned from the refusal, and then not sent.

A refusal is a response with status 400 or 422 that names a parameter which was sent: in a member such as `param` of the
error, or in a sentence of its message with a word of refusal, such as "unsupported", "not" or "only". A message about
the type or the range of a value is no refusal, because the user has to choose another value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias, final

from graphexec.models.http.failures import ErrorReport
from graphexec.models.http.json_bodies import Encoded
from graphexec.models.http.json_values import JSON
from graphexec.models.progress_reports import OptionRefused
from graphexec.runtime.calls import ForkSafeLock


@dataclass(frozen=True, slots=True)
class Parameter:
    """An optional parameter of a protocol.

    `path` is its place in the body, such as `reasoning.effort`; `*` stands for every item of a list. `other_name` is
    the name that some models want instead. `aliases` are further names in refusals. A value for which
    `may_omit` is false is never left out.
    """

    path: str
    other_name: str = ""
    aliases: tuple[str, ...] = ()
    may_omit: Callable[[object], bool] = lambda _: True

    def find(self, body: JSON) -> str:
        """Return the path under which a body has it, or an empty string."""
        paths = (self.path, self.other_name)
        return next((path for path in paths if path and any(map(self.may_omit, _values(body, path.split("."))))), "")

    def names(self, path: str) -> frozenset[str]:
        """Return the names by which a refusal may call it, if the body has it under `path`."""
        return frozenset({_last_part(path), *(self.aliases if path == self.path else ())})


@dataclass(frozen=True, slots=True)
class Repair:
    """Another form of a request, for servers that refuse the usual one in a sentence that the pattern finds.

    `change` changes a body, and returns whether it differs then. Reports name `part`, and what is sent `instead`.
    """

    part: str
    instead: str
    pattern: re.Pattern[str]
    change: Callable[[JSON], bool]


# Characters of a message that are searched: a server may quote the whole request after its refusal.
_MAX_SEARCHED = 5_000

# Each object in a message is a report of its own.
_OBJECT = re.compile(r"[{}]")
_SENTENCE = re.compile(r"[.;!?](?:\s|$)|\n")
# No sentence, but words that look like one about a value: an address or a code in angles, and what pydantic adds.
_MARKUP = re.compile(r"<[^<>\s]*>|https?://\S+|\[type=[^\n]*input_type=\w+\]")
# Pydantic writes the text of an error under the name of what it is about.
_INDENTED = re.compile(r"\n[ \t]+")
_POINTER = re.compile(r"\b(?:see|refer to|consult|visit|check|read) (?:the|our|https?)\b[^:,]*")
# The text of an error in JSON is no quotation.
_INNER_TEXT = re.compile(r"([\"'](?:message|msg|detail|error)[\"']: ?)[\"']")
# A quotation of several words, as of the user's text; an apostrophe in a word opens none.
_QUOTATION = re.compile(r"(?<!\w)([\"'`])[^\"'`,\[\]]* [^\"'`]*\1(?!\w)")
# After these, other parameters are named, which are supported.
_ALTERNATIVES = re.compile(
    r"\bdid you mean\b.*|(?<=unknown )(field \S+) expected one of .*|\b(?:supported|allowed|valid) \w+(?: are\b|:).*"
    r"|(?:^|, )\W{0,3}(?:please )?use .*"
)
_VALUE = re.compile(
    r"\btoo (?:large|long|small|short|high|low|big|many|few)\b|\bat (?:most|least)\b|\bup to\b|\bbetween\b|\brange\b"
    r"|\bexceed|\b(?:maximum|minimum|limit|positive|negative|integers?|floats?|numbers?|strings?|arrays?|lists?|booleans?)\b"
    r"|\b(?:less|greater|more|fewer|higher|lower|larger|smaller) than\b|\bor (?:less|more)\b|[<>\u2264\u2265]"
    r"|\b(?:of|valid|wrong|invalid) type\b|(?<!not )\bexpected (?!one of `)|\bunknown variant\b"
    r"|\bvalues are\b|\d to \d|tokens\W{1,3}\d"
)
# The sentence is about another part of the request, such as the user's text, in which a word such as "stop" is no name.
_OTHER_SUBJECT = re.compile(
    r"\b(?:messages|role|content|prompt|api key|tool (?:choice )?[\"'`]|(?:tool|function|model)[ .]name|the tool)"
)
# The sentence, or the member `param`, is about a schema, such as that of a tool, in which any name may occur.
_SCHEMA = re.compile(
    r"\btools?[.\[]|\bfunctions?[.\[]|function_declarations|_schema\b|\b(?:invalid|tool|function) schema\b"
    r"|\bschema (?:for|of)\b|\bproperties[.\[/'\"]|\bunknown (?:model|tool|function)\b|\.content\b"
)
# The name of something else: a model may be called `seed`.
_OTHER_NAME = re.compile(r"\b(?:model|deployment|engine|function)s?:? ([\"'`])[^\"'`]*\1")
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
# Around a name without quotes that is also an English word, such as "stop": a sign, or a word of this kind.
_LEFT = (
    r"(?:^|[\"'`\[(:=,./]|\s-\s|\b(?:param(?:eter)?s?|arguments?|fields?|keys?|name|propert(?:y|ies)|options?|settings?"
    r"|supports?|accepts?|allows?|permits?|set|setting|passed|sent|has|contains|includes?|removed?|ignores?|rejects?|omit|out|without|the|custom"
    r"|this|only|and|or|of|for|with|because|since|that|specify|unsupported|unrecognized|unknown|unexpected|invalid|illegal"
    r"|supplied))\s*"
)
_RIGHT = (
    r"(?=\s*(?:$|[\"'`\]):=,./])|\s+(?:is|are|was|were|has|must|may|should|can|cannot|\w+n't|parameters?|arguments?|options?"
    r"|fields?|property|settings?|values?|sequences?|not|unsupported|specified|modifications|with|for|when|on|in|to|and|or)\b)"
)
_CODE = re.compile(
    r"unsupported_parameter|not_supported|unrecognized|unknown_(?:parameter|argument|field)", re.IGNORECASE
)
# Members of an error with the name of a parameter, or its path.
_PLACES = ("param", "parameter", "field")
# The first of two parameters of which only one may be sent is kept.
_MUTUALLY_EXCLUSIVE = re.compile(r"\S{1,80} and (?=\S{1,80} (?:cannot|can't|must not|should not) both be)")


def find_refused_names(status: int, report: ErrorReport, sent: Iterable[str]) -> frozenset[str]:
    """Return the names, among those that were `sent`, of parameters that an error refuses; names are in snake case."""
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return frozenset()
    names = frozenset(sent)
    places = _list_places(report.members)
    if _SCHEMA.search(" ".join(places)):
        return frozenset()
    text = "\n".join((report.message, *_list_details(report.members)))
    message = _snake_case(_INNER_TEXT.sub(r"\1", text.replace("\\", "")[:_MAX_SEARCHED]))
    message = _OTHER_NAME.sub(" ", _INDENTED.sub(": ", _MARKUP.sub(" ", message)))
    found = {name for part in _OBJECT.split(message) for name in _names_in(part, names)}
    if not _is_about_value(_split_sentences(message)) or _CODE.search(f"{report.code} {report.kind}"):
        found |= names & {_snake_case(_last_part(place)) for place in places}
    return frozenset(found)


def _list_places(members: Mapping[str, Any]) -> list[str]:
    return [place for name in _PLACES if isinstance(place := members.get(name), str)]


def _list_details(members: Mapping[str, Any]) -> list[str]:
    """Return the details of an error as text: the place of each, and its message."""
    # Any: JSON.
    details: Any = members.get("details")
    several: list[Any] = [*details] if isinstance(details, list) else []
    read: list[dict[str, Any]] = [one for one in several if isinstance(one, dict)]
    return [f"{one[name]}: {ErrorReport.from_json(one).message}" for one in read for name in _PLACES if name in one]


def _names_in(message: str, names: frozenset[str]) -> Iterator[str]:
    sentences = _split_sentences(_MUTUALLY_EXCLUSIVE.sub("", message))
    is_about_value = _is_about_value(sentences) and not re.search(r"\bunset\b", message)
    for sentence in sentences:
        own = _ALTERNATIVES.sub(r"\1", sentence)
        is_plain = _PLAIN_REFUSAL.search(own) and not _VALUE.search(sentence)
        if is_plain or (_REFUSAL.search(own) and not is_about_value):
            unquoted = _QUOTATION.sub(" ", own)
            yield from (name for name in names if _mentions(unquoted, name))


def _split_sentences(message: str) -> list[str]:
    return [_POINTER.sub("", sentence) for sentence in _SENTENCE.split(message)]


def _is_about_value(sentences: Iterable[str]) -> bool:
    return any(map(_VALUE.search, sentences))


def _mentions(sentence: str, name: str) -> bool:
    if _SCHEMA.search(sentence):
        return False
    if "_" in name:
        return re.search(rf"(?<!\w){name}(?!\w)", sentence) is not None
    return not _OTHER_SUBJECT.search(sentence) and re.search(rf"{_LEFT}\b{name}{_RIGHT}", sentence) is not None


def _last_part(path: str) -> str:
    return path.rstrip(".").rpartition(".")[2]


def _snake_case(text: str) -> str:
    """Return a text in lower case, with names in snake case: xAI calls `reasoning_effort` `reasoningEffort`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


@final
class Refusals:
    """The parameters that a server has refused. The calls of one model share it, from all threads and event loops."""

    def __init__(self, known: Sequence[Parameter], repairs: Sequence[Repair] = ()) -> None:
        self._known = known
        self._repairs = repairs
        self._repaired: tuple[Repair, ...] = ()
        # Paths, and other names of parameters. Replaced as a whole, so that it can be read without the lock.
        self._refused: frozenset[str] = frozenset()
        self._lock = ForkSafeLock()

    def apply(self, body: JSON) -> None:
        """Remove the refused parameters from a body, or rename them, and repair it."""
        refused = self._refused
        for repair in self._repaired:
            repair.change(body)
        # Most servers refuse nothing, so most bodies are not searched.
        for parameter in self._known if refused else ():
            if refused.isdisjoint((parameter.path, parameter.other_name)):
                continue
            path, other = parameter.find(body), parameter.other_name
            if path in refused:
                value = _remove(body, path.split("."))
                if path == parameter.path and other and other not in refused:
                    body[other] = value

    def learn(self, body: JSON, status: int, report: ErrorReport) -> list[OptionRefused]:
        """Remember the parameters of `body` that the server refuses, and return them; an empty list if it names none.

        `apply` removes them from the body, so a call can be repeated only as often as there are names.
        """
        sent = [(parameter, path) for parameter in self._known if (path := parameter.find(body))]
        named = find_refused_names(status, report, (name for parameter, path in sent for name in parameter.names(path)))
        learned: list[OptionRefused] = []
        for parameter, path in sent:
            other = parameter.other_name
            if not named.isdisjoint(parameter.names(path)):
                with self._lock:
                    self._refused |= {path}
                instead = other if path == parameter.path and other not in self._refused else ""
                learned.append(OptionRefused(path.rpartition("*.")[2], instead))
        return learned or self._learn_repair(body, report)

    def _learn_repair(self, body: JSON, report: ErrorReport) -> list[OptionRefused]:
        text = "\n".join([report.message[:_MAX_SEARCHED], report.code, *_list_places(report.members)])
        for repair in self._repairs:
            if repair not in self._repaired and repair.pattern.search(text) and repair.change({**body}):
                with self._lock:
                    self._repaired += (repair,)
                return [OptionRefused(repair.part, repair.instead)]
        return []


# Any: a part of a body.
_Part: TypeAlias = Any


def _values(part: _Part, path: Sequence[str]) -> Iterator[_Part]:
    """Yield the values at a path that are not `None`; several if it has a `*`."""
    if isinstance(part, Encoded):
        part = part.decode()
    if not path:
        yield from () if part is None else (part,)
    elif path[0] != "*":
        yield from _values(part.get(path[0]), path[1:]) if isinstance(part, dict) else ()  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(part, list):
        for item in part:  # pyright: ignore[reportUnknownVariableType]
            yield from _values(item, path[1:])


def _remove(part: _Part, path: Sequence[str]) -> _Part:
    """Remove the values at a path, and objects that are then empty; return the last value."""
    first, *rest = path
    if first == "*":
        for item in part:
            _remove(item, rest)
        return None
    if not rest:
        return part.pop(first, None)
    if isinstance(part[first], Encoded):
        part[first] = part[first].decode()
    value = _remove(part[first], rest)
    if part[first] == {}:
        del part[first]
    return value


def may_omit_tool_choice(tool_choice: object) -> bool:
    """Return whether a tool choice can be left out, as for models that reason: any but `none`."""
    return tool_choice not in ("none", {"type": "none"})
