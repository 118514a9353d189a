"""Hide personal data: the matches in a text, their tokens, and all values of a run that hold texts."""

from __future__ import annotations

import dataclasses
import json
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, final

from graphexec._parsing import compile_lazily
from graphexec.actions import AgentAction, Run
from graphexec.effects import ToolResult
from graphexec.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from graphexec.messages.observations import Excerpt, dump_observation
from graphexec.nodes._personal_data import LITERAL, Finder, Strategy, hide_for_good

M = TypeVar("M", bound=SystemMessage | UserMessage | ToolMessage | AssistantMessage)

# Changes a string, or an integer; the reply may be of another class.
Change: TypeAlias = Callable[[Any], Any]

# A token, or a text that looks like one; a group, so that `split` keeps it.
_TOKEN = compile_lazily(r"(\[[A-Z][A-Z0-9_]{0,39}_[0-9]{1,9}\])")
# So many texts are remembered, each of so many characters at most: those of a long conversation.
_MOST_CLEAN = 4_096
_LONGEST_CLEAN = 10_000


@final
class Matcher:
    """The patterns, the strings that they do not apply to, and what is done with the matches of each."""

    def __init__(self, finders: Mapping[str, Finder], keep: frozenset[str], strategies: Mapping[str, Strategy]) -> None:
        self._finders = finders
        self._keep = keep
        self._strategies = strategies
        nothing = Vault({}, self)
        # Each request has the texts of the request before.
        self.is_clean = _remember(lambda text: nothing.mask_between_tokens(text) is text)
        self.is_clean_json = _remember(lambda text: map_json(text, nothing.mask) is text)

    def for_good(self) -> Matcher | None:
        """Return the patterns whose matches nobody restores, if there are any."""
        finders = {kind: finder for kind, finder in self._finders.items() if self.strategy_of(kind) != "token"}
        return Matcher(finders, self._keep, self._strategies) if finders else None

    def strategy_of(self, kind: str) -> Strategy:
        """Return what is done with a match of this kind."""
        return self._strategies.get(kind, "token")

    def rewrite(self, kind: str, value: str) -> str | None:
        """Return what stands in the place of a match for good; `None` if it gets a token."""
        strategy = self.strategy_of(kind)
        if strategy == "token":
            return None
        text = hide_for_good(kind, value, strategy)
        # A part of a match may be a match itself.
        return "*" * len(text) if strategy == "mask" and [*self._finders[kind](text)] else text

    def find(self, text: str, *, tokens: bool) -> list[tuple[int, int, str]]:
        """Return the start, the end and the kind of each match in order; with `tokens`, of what looks like one, too.

        Between the matches there is none: `ann@example.com4111 1111 1111 1111` has an address only once the number is
        a token.
        """
        found = self._find_all(text, tokens=tokens)
        gaps = list(_gaps(found, len(text))) if found else []
        while gaps:
            start, end = gaps.pop()
            inner = self._find_all(text[start:end], tokens=tokens)
            found += [(start + first, start + last, kind) for first, last, kind in inner]
            if inner:
                gaps += [(start + first, start + last) for first, last in _gaps(inner, end - start)]
        return sorted(found)

    def _find_all(self, text: str, *, tokens: bool) -> list[tuple[int, int, str]]:
        spans = [
            (start, end, kind)
            for kind, finder in self._finders.items()
            for start, end in finder(text)
            if text[start:end] not in self._keep
        ]
        if tokens and "[" in text:
            spans += [(*match.span(), LITERAL) for match in _TOKEN().finditer(text)]
        return _merge(spans)


def _remember(is_clean: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return the function with the last texts for which it is true; it keeps no personal data."""
    known = set[str]()

    def is_known_or_clean(text: str) -> bool:
        if text in known:
            return True
        clean = is_clean(text)
        if clean and len(text) <= _LONGEST_CLEAN:
            if len(known) >= _MOST_CLEAN:
                known.clear()
            known.add(text)
        return clean

    return is_known_or_clean


def _merge(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the matches in order, those that overlap as one of the kind of the first."""
    merged: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end <= start:
            continue
        if merged and start < merged[-1][1]:
            first = merged[-1]
            merged[-1] = (first[0], max(first[1], end), first[2])
        else:
            merged.append((start, end, kind))
    return merged


def _gaps(spans: Sequence[tuple[int, int, str]], length: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of what is between the matches of a text of this length."""
    done = 0
    for start, end, _ in (*spans, (length, length, "")):
        if done < start:
            yield done, start
        done = end


@final
class Vault:
    """The values of a run by their tokens; `blocked` are the kinds that were hidden and have the strategy `block`."""

    __slots__ = ("_counts", "_matcher", "_tokens", "_values", "blocked")

    def __init__(self, values: Mapping[str, Any], matcher: Matcher) -> None:
        self._matcher = matcher
        self._values = dict(values)
        self.blocked: list[str] = []
        self._tokens = {_key_of(value): token for token, value in values.items()}
        self._counts = Counter(token[1:].rpartition("_")[0] for token in values)

    @classmethod
    def of(cls, run: Run, name: str, matcher: Matcher) -> Vault:
        """Return the vault of a run, which is the state of the piece."""
        values: Mapping[str, Any] = run.aside.state.get(name, {})
        return cls(values, matcher)

    def store(self, run: Run, name: str) -> Run:
        """Return the run with this vault as the state of the piece."""
        if len(run.aside.state.get(name, ())) == len(self._values):
            return run
        return run.with_aside(state={**run.aside.state, name: dict(self._values)})

    def hide(self, value: Any) -> Any:
        """Return a string with each match replaced by its token, and its token for a number that is a match."""
        return self._replace(value, self._add, tokens=True)

    def mask(self, value: Any) -> Any:
        """Return a string with each match replaced by its token, or by the kind alone if it has none."""
        if not isinstance(value, str):
            return self._replace(value, self._name_token, tokens=False)
        return value if self._matcher.is_clean(value) else self.mask_between_tokens(value)

    def mask_json(self, text: str) -> str:
        """Return JSON with the matches in its values replaced, like `mask`."""
        return text if self._matcher.is_clean_json(text) else map_json(text, self.mask)

    def mask_between_tokens(self, text: str) -> str:
        """Return a string with the matches between its tokens replaced; the same object if there are none."""
        parts = _TOKEN().split(text)
        parts[::2] = [self._replace(one, self._name_token, tokens=False) for one in parts[::2]]
        masked = "".join(parts)
        return text if masked == text else masked

    def show(self, value: Any) -> Any:
        """Return a string with the tokens replaced by their values; a token that stands alone, as its value."""
        if not isinstance(value, str) or "[" not in value:
            return value
        if value in self._values:
            return self._values[value]
        return _TOKEN().sub(lambda match: str(self._values.get(match[0], match[0])), value)

    def _replace(self, value: Any, name: Callable[[str, Any], str], *, tokens: bool) -> Any:
        """Return a string with its matches named, and the name of a number that is a match."""
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            return value
        text = str(value)
        spans = self._matcher.find(text, tokens=tokens)
        if not isinstance(value, str):
            return name(spans[0][2], value) if spans and spans[0][:2] == (0, len(text)) else value
        parts: list[str] = []
        done = 0
        for start, end, kind in spans:
            parts += (text[done:start], name(kind, text[start:end]))
            done = end
        return "".join([*parts, text[done:]]) if spans else value

    def _add(self, kind: str, value: Any) -> str:
        if (text := self._matcher.rewrite(kind, str(value))) is not None:
            if self._matcher.strategy_of(kind) == "block":
                self.blocked.append(kind)
            return text
        key = _key_of(value)
        token = self._tokens.get(key)
        if token is None:
            self._counts[kind] += 1
            token = f"[{kind}_{self._counts[kind]}]"
            self._tokens[key] = token
            self._values[token] = value
        return token

    def _name_token(self, kind: str, value: Any) -> str:
        text = self._matcher.rewrite(kind, str(value))
        return self._tokens.get(_key_of(value), f"[{kind}]") if text is None else text


def _key_of(value: object) -> tuple[type, object]:
    """Return a key that differs for different values: the number 1 is not the string "1"."""
    return type(value), value


def map_values(value: Any, change: Change) -> Any:
    """Return a value with each string and number in it changed; the same object if nothing changes."""
    match value:
        case str() | int():
            return change(value)
        case Mapping():
            # Any: JSON data, or what a caller passes.
            by_key: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
            # A token that stands alone may be a number, which is no key of JSON.
            keys = [str(change(key)) if isinstance(key, str) else key for key in by_key]
            changed = dict(zip(keys, (map_values(one, change) for one in by_key.values()), strict=True))
            same = len(changed) == len(by_key) and all(by_key.get(key) is one for key, one in changed.items())
            return by_key if same else changed
        case list() | tuple():
            # Any: as above.
            items: list[Any] = [*value]
            several = [map_values(one, change) for one in items]
            if all(map(operator.is_, several, items)):
                return value  # pyright: ignore[reportUnknownVariableType]
            return several if isinstance(value, list) else tuple(several)
        case SystemMessage() | UserMessage() | ToolMessage() | AssistantMessage():
            return map_message(value, change)
        case _:
            return _map_foreign_message(value, change)


def map_message(message: M, change: Change, change_json: Change | None = None) -> M:
    """Return a message with its content and the arguments of its calls changed, which are JSON."""
    of_json: Change = change_json or partial(map_json, change=change)
    content = str(change(message.content))
    if not isinstance(message, AssistantMessage):
        return message if content == message.content else dataclasses.replace(message, content=content)
    named = [(str(change(call.name)), str(of_json(call.arguments))) for call in message.tool_calls]
    if content == message.content and named == [(call.name, call.arguments) for call in message.tool_calls]:
        return message
    calls = tuple(
        dataclasses.replace(call, name=name, arguments=arguments)
        for call, (name, arguments) in zip(message.tool_calls, named, strict=True)
    )
    return dataclasses.replace(message, content=content, tool_calls=calls)


def map_json(text: str, change: Change) -> str:
    """Return JSON with the strings and the numbers in it changed; what is not JSON is changed as one string."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return str(change(text))
    changed = map_values(data, change)
    return text if changed is data else json.dumps(changed, ensure_ascii=False)


def _map_foreign_message(value: Any, change: Change) -> Any:
    """Return a message of another library, which is a pydantic model, with its content changed."""
    content = getattr(value, "content", None)
    copy = getattr(value, "model_copy", None)
    if not isinstance(content, (str, list)) or copy is None:
        return value
    return copy(update={"content": map_values(content, change)})


def map_inputs(run: Run, change: Change) -> Run:
    """Return the run with the values of its inputs changed; their names stay."""
    inputs = {key: map_values(value, change) for key, value in run.inputs.items()}
    return dataclasses.replace(run, inputs=inputs)


def map_input(action: AgentAction, change: Change) -> AgentAction:
    """Return a call with its input changed."""
    changed = map_values(action.tool_input, change)
    if isinstance(action.tool_input, str):
        changed = str(changed)
    return action if changed is action.tool_input else dataclasses.replace(action, tool_input=changed)


def hide_result(result: ToolResult, hide: Change) -> ToolResult:
    """Return a tool's result with the values in it hidden."""
    data = dump_observation(result.observation)
    hidden = map_values(data, hide)
    # What holds no match stays an object of its class.
    observation = result.observation if hidden is data else hidden
    return dataclasses.replace(result, observation=observation, excerpt=map_excerpt(result.excerpt, hide))


def map_excerpt(excerpt: Excerpt, change: Change) -> Excerpt:
    """Return an excerpt with its note changed."""
    return dataclasses.replace(excerpt, note=str(change(excerpt.note))) if excerpt.note else excerpt
