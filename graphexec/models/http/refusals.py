"""Optional parameters that a server refuses, as reasoning models do: learned from the refusal, and then not sent.

A refusal is a response with status 400 or 422 that names a parameter. The shapes are those of OpenAI and Azure (`param`
and `code`, or only a text), xAI, DeepSeek, Moonshot, Groq, Cerebras, Gemini ("Unknown name"), Mistral, vLLM and FastAPI
(`loc` of an `extra_forbidden` input), LiteLLM and Anthropic, as their users quote them in issues of client libraries.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
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
    the name that some models want instead. `aliases` are further names in refusals. Values that are not `optional` are
    always sent.
    """

    path: str
    other_name: str = ""
    aliases: tuple[str, ...] = ()
    optional: Callable[[object], bool] = lambda _: True

    def find(self, body: JSON) -> str:
        """Return the path under which a body has it, or an empty string."""
        paths = (self.path, self.other_name)
        return next((path for path in paths if path and any(map(self.optional, _values(body, path.split("."))))), "")

    def names(self, path: str) -> frozenset[str]:
        """Return the names by which a refusal may call it, if the body has it under `path`."""
        return frozenset({_last_part(path), *(self.aliases if path == self.path else ())})


# The most characters of a message that are searched; a server may quote the whole request.
_LONGEST = 5_000

# The length and the beginning of a name are bounded, so that a search takes time linear in the text.
_NAME = r"(?<!\w)[\"'`]?([A-Za-z_][\w.\[\]]{0,80})[\"'`]?"
_REFUSED = (
    r"(?:(?:not|no longer|never)(?: currently| yet)? (?:supported|permitted|allowed|recognized|available|accepted)"
    r"|unsupported|unrecognized|deprecated|does not support|doesn't support|may only be set to|must be unset"
    r"|not an? (?:supported|valid|recognized|known) (?:parameter|argument|option|property|field)"
    r"|cannot be (?:set|specified|used)|can only be|should not be (?:set|sent)|forces tool use"
    r"|extra (?:inputs|fields)(?: are)? not permitted|only [\w.]{1,20} is allowed)"
)
# Words before the names of one or more parameters: "Unsupported parameters: ['a', 'b'] for this model".
_BEFORE = re.compile(
    r"(?:unsupported|unrecognized|unknown|unexpected)(?: request| keyword)? (?:parameter|value|argument|name|field|key)"
    r"(?:s|\(s\))?(?: supplied)?"
    r"|(?:argument|parameter)s?(?: is| are)? not supported(?: on| with| by| for)?(?: this model)?"
    r"|additional properties are not allowed"
    r"|(?:does not|doesn't|do not) support (?:the |these )?(?:parameter|argument|option)(?:s|\(s\))?",
    re.IGNORECASE,
)
# The end of such a list of names; other names may follow, which are supported.
_END = re.compile(
    r"[.;](?:\s|$)|\n|\s(?:is|are|was|were|for|with|in|at|on|by|expected|did|use|valid|supported|allowed)\s",
    re.IGNORECASE,
)
_SINGLE = (
    # Such as "The 'a' parameter is not supported", or: a: Extra inputs are not permitted
    re.compile(
        _NAME
        + r"(?: parameter| argument| option| property| field| value| sequences?)?(?:: | )(?:is |are |was )?"
        + _REFUSED,
        re.IGNORECASE,
    ),
    # "This model does not support the a parameter"
    re.compile(r"(?:does not|doesn't|do not) support (?:the |this |setting |custom |forced )?" + _NAME, re.IGNORECASE),
    re.compile(r"extra inputs are not permitted, field: " + _NAME, re.IGNORECASE),
    # "a must be at least 0.95 or unset"
    re.compile(_NAME + r" must be [^.;\n]{0,60}(?:\.\d+)?[^.;\n]{0,20}\bunset\b", re.IGNORECASE),
    re.compile(r"[\"'`]?\b(temperature|top_p)[\"'`]? must be (?:set to |equal to |exactly )?1(?:\.0)?(?![\d.]*\d| or)"),
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
_CODE = re.compile(r"unsupported|not_supported|unrecognized|unknown_(?:parameter|argument|field)", re.IGNORECASE)


def find_refused_names(status: int, report: ErrorReport) -> frozenset[str]:
    """Return the names of parameters that an error refuses: the last part of each path, in snake case."""
    message = report.message.replace("\\", "")[:_LONGEST]
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY} or _OTHER_VALUES.search(message):
        return frozenset()
    found = [*_names_in(message)]
    named = report.members.get("param")
    if isinstance(named, str) and (_CODE.search(f"{report.code} {report.kind}") or _ANY_REFUSAL.search(message)):
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


@final
class Refusals:
    """The parameters that a server has refused. The calls of one model share it, from all threads and event loops."""

    def __init__(self, known: Sequence[Parameter]) -> None:
        self._known = known
        # Paths, and other names of parameters. Replaced as a whole, so that it can be read without the lock.
        self._refused: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def apply(self, body: JSON) -> None:
        """Remove the refused parameters from a body, or rename them."""
        refused = self._refused
        # Most servers refuse nothing, so most bodies are not searched.
        for parameter in self._known if refused else ():
            path, other = parameter.find(body), parameter.other_name
            if path in refused:
                value = _remove(body, path.split("."))
                if path == parameter.path and other and other not in refused:
                    body[other] = value

    def learn(self, body: JSON, status: int, report: ErrorReport) -> list[Refused]:
        """Remember the parameters of `body` that the server refuses, and return them; an empty list if it names none.

        `apply` removes them from the body, so a call can be repeated only as often as there are names.
        """
        named = find_refused_names(status, report)
        learned: list[Refused] = []
        for parameter in self._known:
            path, other = parameter.find(body), parameter.other_name
            if path and not named.isdisjoint(parameter.names(path)):
                with self._lock:
                    self._refused |= {path}
                instead = other if path == parameter.path and other not in self._refused else ""
                learned.append(Refused(path.rpartition("*.")[2], instead))
        return learned


# Any: a part of a body.
_Part: TypeAlias = Any


def _values(part: _Part, path: Sequence[str]) -> Iterator[_Part]:
    """Yield the values at a path that are not `None`; several if it has a `*`."""
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
    value = _remove(part[first], rest)
    if part[first] == {}:
        del part[first]
    return value


def is_forced(tool_choice: object) -> bool:
    """Return whether a tool choice forces a call, which models that reason may refuse."""
    return tool_choice not in ("none", {"type": "none"})
