"""Optional parameters that a server refuses, as reasoning models do: learned from the refusal, and then not sent.

A refusal is a response with status 400 or 422 that names a parameter. The shapes are those of OpenAI and Azure (`param`
and `code`, or only a text), xAI, DeepSeek, Moonshot, Groq, Cerebras, Gemini ("Unknown name"), Mistral, vLLM and FastAPI
(`loc` of an `extra_forbidden` input), LiteLLM and Anthropic, as their users quote them in issues of client libraries.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias, final

from graphexec.models.http.failures import ErrorReport
from graphexec.models.http.json_bodies import JSON
from graphexec.models.progress_reports import Refused


@dataclass(frozen=True, slots=True)
class Parameter:
    """An optional parameter of a protocol.

    `path` is its place in the body, such as `reasoning.effort`; `*` stands for every item of a list. `other_name` is
    the name that some models want instead. `aliases` are further names in refusals.
    """

    path: str
    other_name: str = ""
    aliases: tuple[str, ...] = ()

    def names(self, name: str) -> frozenset[str]:
        """Return the names by which a refusal may call it, if the body has it under `name`."""
        return frozenset({_last_part(name), *(self.aliases if name == self.path else ())})


# The most characters of a message that are searched; a server may quote the whole request.
_LONGEST = 5_000

# The length and the beginning of a name are bounded, so that a search takes time linear in the text.
_NAME = r"(?<!\w)[\"'`]?([A-Za-z_][\w.\[\]]{0,80})[\"'`]?"
_REFUSED = (
    r"(?:(?:not|no longer|never)(?: currently| yet)? (?:supported|permitted|allowed|recognized|available|accepted)"
    r"|unsupported|unrecognized|deprecated|does not support|doesn't support|may only be set to|must be unset"
    r"|cannot be (?:set|specified|used)|can only be|should not be (?:set|sent)|forces tool use"
    r"|extra (?:inputs|fields)(?: are)? not permitted|only [\w.]{1,20} is allowed)"
)
# Words before the names of one or more parameters: "Unsupported parameters: ['a', 'b'] for this model".
_BEFORE = re.compile(
    r"(?:unsupported|unrecognized|unknown|unexpected)(?: request| keyword)? (?:parameter|value|argument|name|field|key)"
    r"(?:s|\(s\))?(?: supplied)?"
    r"|(?:argument|parameter)s? not supported(?: on| with| by| for)?(?: this model)?"
    r"|(?:does not|doesn't|do not) support (?:the |these )?(?:parameter|argument|option)(?:s|\(s\))?",
    re.IGNORECASE,
)
# The end of such a list of names.
_END = re.compile(r"[.;](?:\s|$)|\n|\s(?:is|are|for|with|in|at|on|by)\s", re.IGNORECASE)
_SINGLE = (
    # Such as "The 'a' parameter is not supported", or: a: Extra inputs are not permitted
    re.compile(
        _NAME + r"(?: parameter| argument| option| property| field| value)?(?:: | )(?:is |are |was )?" + _REFUSED,
        re.IGNORECASE,
    ),
    # "This model does not support the a parameter"
    re.compile(r"(?:does not|doesn't|do not) support (?:the |this |setting |forced )?" + _NAME, re.IGNORECASE),
    re.compile(r"extra inputs are not permitted, field: " + _NAME, re.IGNORECASE),
    # "a must be at least 0.95 or unset"
    re.compile(_NAME + r" must be [^.;\n]{0,60}(?:\.\d+)?[^.;\n]{0,20}\bunset\b", re.IGNORECASE),
    # "a and b cannot both be specified": the first is kept.
    re.compile(r"\band " + _NAME + r" (?:cannot|can't|must not|should not) both be", re.IGNORECASE),
)
# The place of an input that pydantic forbids, as JSON or as Python writes it.
_PLACE = re.compile(r"[\"']loc[\"']: ?[\[(]([^\])]*)[\])]")
_FORBIDDEN = re.compile(r"extra_forbidden|extra (?:inputs|fields)(?: are)? not permitted", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_][\w.\[\]]*")
_ANY_REFUSAL = re.compile(rf"\b{_REFUSED}|\bunknown\b", re.IGNORECASE)
# The parameter is known and only its value is wrong, so the user has to choose another one.
_OTHER_VALUES = re.compile(r"supported values are", re.IGNORECASE)
_CODES = {"unsupported_parameter", "unsupported_value", "unknown_parameter"}


def find_refused_names(status: int, report: ErrorReport) -> frozenset[str]:
    """Return the names of parameters that an error refuses: the last part of each path, in snake case."""
    message = report.message.replace("\\", "")[:_LONGEST]
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY} or _OTHER_VALUES.search(message):
        return frozenset()
    found = [*_names_in(message)]
    named = report.members.get("param")
    if isinstance(named, str) and (report.code in _CODES or _ANY_REFUSAL.search(message)):
        found.append(named)
    return frozenset(_last_part(name) for name in found)


def _names_in(message: str) -> Iterator[str]:
    for marker in _BEFORE.finditer(message):
        end = _END.search(message, marker.end())
        yield from _WORD.findall(message[marker.end() : end.start() if end else len(message)])
    for pattern in _SINGLE:
        yield from pattern.findall(message)
    for fragment in message.split("}"):
        if _FORBIDDEN.search(fragment):
            for place in _PLACE.findall(fragment):
                yield from _WORD.findall(place)[-1:]


def _last_part(name: str) -> str:
    """Return the last part of a path in snake case: xAI calls `reasoning_effort` `reasoningEffort`."""
    last = name.rstrip(".").rpartition(".")[2]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last).lower()


# Any: a part of a body.
_Part: TypeAlias = Any


@final
class Refusals:
    """The parameters that a server has refused. The calls of one model share it, from all threads and event loops."""

    def __init__(self, known: Sequence[Parameter]) -> None:
        self._known = known
        # How many names of a parameter, by its path, have been refused.
        self._refused: Mapping[str, int] = {}
        self._lock = threading.Lock()

    def apply(self, body: JSON) -> None:
        """Remove the refused parameters from a body, or rename them. Applying it again changes nothing more."""
        refused = self._refused
        for parameter in self._known:
            names = refused.get(parameter.path, 0)
            if not names:
                continue
            value = _remove(body, parameter.path.split("."))
            if not parameter.other_name:
                continue
            if names > 1:
                body.pop(parameter.other_name, None)
            elif value is not None:
                body[parameter.other_name] = value

    def learn(self, body: JSON, status: int, report: ErrorReport) -> list[Refused]:
        """Remember the parameters of `body` that the server refuses, and return them; an empty list if it names none.

        A body to which `apply` has been called since then has none of them, so a call can be repeated only as often
        as there are names.
        """
        wanted = find_refused_names(status, report)
        learned: list[Refused] = []
        for parameter in self._known:
            sent = next((name for name in (parameter.path, parameter.other_name) if name and _has(body, name)), "")
            if not sent or wanted.isdisjoint(parameter.names(sent)):
                continue
            renamed = sent == parameter.path and bool(parameter.other_name)
            with self._lock:
                names = max(self._refused.get(parameter.path, 0), 1 if renamed else 2)
                self._refused = {**self._refused, parameter.path: names}
            learned.append(Refused(sent.rpartition("*.")[2], parameter.other_name if renamed else ""))
        return learned


def _has(part: _Part, path: str) -> bool:
    first, _, rest = path.partition(".")
    if first == "*":
        return isinstance(part, list) and any(_has(item, rest) for item in part)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(part, dict) or part.get(first) is None:  # pyright: ignore[reportUnknownMemberType]
        return False
    return not rest or _has(part[first], rest)


def _remove(part: _Part, path: list[str]) -> _Part:
    """Remove the value at a path, and objects that are then empty; return the value, or `None` if there is none."""
    first, *rest = path
    if first == "*":
        for item in part:
            _remove(item, rest)
        return None
    if not isinstance(part, dict) or first not in part:
        return None
    if not rest:
        return part.pop(first)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    value = _remove(part[first], rest)
    if part[first] == {}:
        del part[first]
    return value
