"""Privacy: personal data is replaced by tokens before a model sees it, and restored for tools and people."""

from __future__ import annotations

import dataclasses
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, final

from graphexec._arguments import FLAG, STRING, validate, validate_each
from graphexec._parsing import compile_lazily
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, StoppedResponse
from graphexec.effects import ToolResult
from graphexec.errors import InputError, format_value
from graphexec.executor.plugging import Piece
from graphexec.executor.table import Acted, Observed, Ready
from graphexec.kernel.node import Node, node, rename
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    ModelRequest,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from graphexec.messages.images import dump_observation
from graphexec.nodes._personal_data import PATTERNS, Finder, find_spans

# What a pattern is: a regular expression, or a function that returns the start and the end of each match.
AnyPattern: TypeAlias = str | re.Pattern[str] | Finder

M = TypeVar("M", bound=SystemMessage | UserMessage | ToolMessage | AssistantMessage)

# Changes a string, or an integer; the reply may be of another class.
Change: TypeAlias = Callable[[Any], Any]

E = TypeVar("E", AgentFinish, StoppedResponse)


def redact_pii(
    patterns: Iterable[str] | Mapping[str, AnyPattern] = tuple(PATTERNS),
    *,
    restore: bool = True,
    keep: Sequence[str] = (),
    name: str = "redact_pii",
) -> Piece:
    """Return a piece that replaces personal data by tokens such as `[EMAIL_1]` before the agent's model sees them.

    It replaces them in the inputs (a chat history included), in tool results, and at last in every request of the agent
    and of other pieces, whatever its prompt is made of: no message of a request holds a match. The tools are called
    with the values. The answer, the last word of a stopped run, the steps of the result and what a memory saves have
    the values, too; with `restore=False` all of these have the tokens, and a match in an answer is replaced.

    - `patterns`: names of the patterns on the shelf, of `EMAIL`, `CARD` (with a valid checksum), `IBAN` (likewise),
      `PHONE` (international, `+49 ...`) and `API_KEY`, which are the default; or your own by name, as regular
      expressions or as functions from a string to the `(start, end)` of each match.
    - `keep`: strings that are never replaced, such as the address of your own support.

    A value has the same token throughout a run. A token that a tool or a person writes is replaced like a match, and
    one that the model invents is left as it is, so guessing reveals no value. The tokens and the values are
    a part of the run's snapshot. A match that only the request has, such as one in the prompt, is replaced by `[EMAIL]`
    for good. Images are not searched.

    The pieces of an answer are held back until it is restored. In `stream_chunks`, steps have the tokens. Put the piece
    first in the list: a node that asks a model before it, or after the answer is restored, is refused. An agent that a
    tool or a piece runs gets the values, like any tool; give it a `redact_pii` of its own. So does the model of a
    memory that summarizes.

    Bound: `6*iterations + 4` transitions; nothing is asked. The default patterns take time linear in the text. Raises
    `InputError` for an invalid option.

        executor = create_agent(model, tools, nodes=[redact_pii()])
        executor.run("Send the invoice to ann@example.com")        # the model reads: ... to [EMAIL_1]

        badge = redact_pii({"BADGE": r"B-[0-9]{6}"}, name="redact_badges")
        executor = executor.plug(badge)
    """
    validate("redact_pii", ("restore", restore, FLAG), ("name", name, STRING))
    search = _Search(_to_finders(patterns), frozenset(validate_each("redact_pii: keep", keep, str, "strings")))

    @node
    def hide_inputs(ready: Ready) -> Ready:
        """Replace the personal data in the inputs."""
        vault = _Vault.of(ready.run, name, search)
        return Ready(vault.store(_map_inputs(ready.run, vault.hide), name))

    @node
    def show_arguments(acted: Acted) -> Acted:
        """Restore the arguments of the calls for the tools."""
        show = _Vault.of(acted.run, name, search).show
        return dataclasses.replace(acted, actions=tuple(_map_input(action, show) for action in acted.actions))

    @node
    def hide_results(observed: Observed) -> Observed:
        """Replace the personal data in the calls and in their results."""
        vault = _Vault.of(observed.run, name, search)
        actions = tuple(_map_input(action, vault.hide) for action in observed.actions)
        results = tuple(_hide_result(result, vault.hide) for result in observed.results)
        return Observed(vault.store(observed.run, name), actions, results)

    def change_ending(ending: E) -> E:
        vault = _Vault.of(ending.run, name, search)
        if restore:
            return _map_ending(ending, vault.show, _show_run(ending.run, vault, name))
        return _map_ending(ending, vault.mask, ending.run)

    # Two nodes: the table would let one of both classes return either.
    @node
    def show_answer(finish: AgentFinish) -> AgentFinish:
        """Restore the answer and its steps for people, or replace the personal data in the answer."""
        return change_ending(finish)

    @node
    def show_stopped(stopped: StoppedResponse) -> StoppedResponse:
        """Do the same with the text of a stopped run."""
        return change_ending(stopped)

    def edits(request: ModelRequest, run: Run) -> ModelRequest:
        mask = _Vault.of(run, name, search).mask
        if isinstance(request, ChatRequest):
            # Through an iterator: `len` would write all messages once more.
            return dataclasses.replace(request, messages=_map_values(tuple(iter(request.messages)), mask))
        return dataclasses.replace(request, prompt=mask(request.prompt))

    entries: list[Node[Any, Any]] = [rename(hide_inputs, name), rename(hide_results, f"{name}_results")]
    if restore:
        entries.append(rename(show_arguments, f"{name}_arguments"))
    entries += [rename(show_answer, f"{name}_answer"), rename(show_stopped, f"{name}_stopped")]
    return Piece(name, tuple(entries), once=True, edits=edits, reveals=True)


# A token's name: letters, digits and underscores, in capitals.
_NAME = compile_lazily(r"[A-Z][A-Z0-9_]{0,39}")
# A token, or a text that looks like one.
_TOKEN = compile_lazily(r"\[[A-Z][A-Z0-9_]{0,39}_[0-9]{1,9}\]")
# So many texts without a match are remembered, each of so many characters at most: those of a long conversation.
_MOST_CLEAN = 4_096
_LONGEST_CLEAN = 10_000
# The kind of the tokens that stand for what only looks like a token.
_LITERAL = "TEXT"


def _to_finders(patterns: Iterable[str] | Mapping[str, AnyPattern]) -> Mapping[str, Finder]:
    """Return the functions that find the matches, by the name of their pattern. Raises `InputError`."""
    if not isinstance(patterns, Mapping):
        names = validate_each("redact_pii: patterns", patterns, str, "names, or a dict of patterns by name")
        if unknown := [one for one in names if one not in PATTERNS]:
            raise InputError(
                f"redact_pii has no pattern {unknown[0]}; it has {', '.join(PATTERNS)}; pass your own in a dict by name"
            )
        return {one: PATTERNS[one] for one in names}
    # A mapping is an iterable of names, too, which type checkers cannot distinguish.
    own: Mapping[str, AnyPattern] = patterns  # pyright: ignore[reportUnknownVariableType]
    return {name: _to_finder(name, pattern) for name, pattern in own.items()}


def _to_finder(name: object, pattern: AnyPattern) -> Finder:
    if not isinstance(name, str) or not _NAME().fullmatch(name) or name == _LITERAL:
        raise InputError(f"redact_pii has a pattern {format_value(name)}; name it in capitals, such as BADGE")
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as error:
            raise InputError(
                f"redact_pii: the pattern {name} is invalid ({error}); give a regular expression"
            ) from error
    if isinstance(pattern, re.Pattern):
        if pattern.search("") is not None:
            raise InputError(f"redact_pii: the pattern {name} matches the empty string; let it match a character")
        finditer = pattern.finditer
        return lambda text: [match.span() for match in finditer(text)]
    if not callable(pattern):
        raise InputError(
            f"redact_pii: the pattern {name} is {format_value(pattern)}; give a regular expression or a function"
        )
    return pattern


@final
@dataclasses.dataclass(frozen=True)
class _Search:
    """The patterns, and the strings that they do not apply to."""

    finders: Mapping[str, Finder]
    keep: frozenset[str]
    # Texts without a match: each request has those of the request before.
    clean: dict[str, None] = dataclasses.field(default_factory=dict[str, None])

    def is_clean(self, text: str) -> bool:
        """Return whether a text has no match. The answers of the last texts are kept."""
        if text in self.clean:
            return True
        found = self._find_all(text, tokens=False)
        if not found and len(text) <= _LONGEST_CLEAN:
            if len(self.clean) >= _MOST_CLEAN:
                self.clean.clear()
            self.clean[text] = None
        return not found

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
            for kind, finder in self.finders.items()
            for start, end in finder(text)
            if text[start:end] not in self.keep
        ]
        if tokens and "[" in text:
            spans += [(*match.span(), _LITERAL) for match in _TOKEN().finditer(text)]
        return find_spans(spans)


def _gaps(spans: Sequence[tuple[int, int, str]], length: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of what is between the matches of a text of this length."""
    done = 0
    for start, end, _ in (*spans, (length, length, "")):
        if done < start:
            yield done, start
        done = end


@final
class _Vault:
    """The values of a run by their tokens."""

    __slots__ = ("_counts", "_search", "_tokens", "_values")

    def __init__(self, values: Mapping[str, Any], search: _Search) -> None:
        self._search = search
        self._values = dict(values)
        self._tokens = {_key_of(value): token for token, value in values.items()}
        self._counts = Counter(token[1:].rpartition("_")[0] for token in values)

    @classmethod
    def of(cls, run: Run, name: str, search: _Search) -> _Vault:
        """Return the vault of a run, which is the state of the piece."""
        values: Mapping[str, Any] = run.aside.state.get(name, {})
        return cls(values, search)

    def store(self, run: Run, name: str) -> Run:
        """Return the run with this vault as the state of the piece."""
        if len(run.aside.state.get(name, ())) == len(self._values):
            return run
        return run.with_aside(state={**run.aside.state, name: dict(self._values)})

    def hide(self, value: Any) -> Any:
        """Return a string with each match replaced by its token, and its token for a number that is a match."""
        if isinstance(value, str):
            return self._replace(value, self._add, tokens=True)
        matched = self._match_whole(value)
        return value if matched is None else self._add(matched, value)

    def mask(self, value: Any) -> Any:
        """Return a string with each match replaced by its token, or by the kind alone if it has none."""
        if isinstance(value, str):
            return self._mask_text(value)
        matched = self._match_whole(value)
        return value if matched is None else self._name_token(matched, value)

    def show(self, value: Any) -> Any:
        """Return a string with the tokens replaced by their values; a token that stands alone, as its value."""
        if not isinstance(value, str) or "[" not in value:
            return value
        if value in self._values:
            return self._values[value]
        return _TOKEN().sub(lambda match: str(self._values.get(match[0], match[0])), value)

    def show_json(self, text: str) -> str:
        """Return JSON with the tokens in its strings replaced by their values."""

        def escaped(token: str) -> str:
            return json.dumps(str(self._values[token]), ensure_ascii=False)[1:-1] if token in self._values else token

        return _TOKEN().sub(lambda match: escaped(match[0]), text)

    def _mask_text(self, text: str) -> str:
        """Return a string with the matches between its tokens replaced."""
        if "[" not in text and self._search.is_clean(text):
            return text
        parts: list[str] = []
        done = 0
        for token in _TOKEN().finditer(text) if "[" in text else ():
            parts += (self._replace(text[done : token.start()], self._name_token, tokens=False), token[0])
            done = token.end()
        return "".join([*parts, self._replace(text[done:], self._name_token, tokens=False)])

    def _match_whole(self, value: object) -> str | None:
        """Return the kind of a number that is a match."""
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        text = str(value)
        found = self._search.find(text, tokens=False)
        return found[0][2] if found and found[0][:2] == (0, len(text)) else None

    def _replace(self, text: str, name: Callable[[str, Any], str], *, tokens: bool) -> str:
        spans = self._search.find(text, tokens=tokens)
        if not spans:
            return text
        parts: list[str] = []
        done = 0
        for start, end, kind in spans:
            parts += (text[done:start], name(kind, text[start:end]))
            done = end
        return "".join([*parts, text[done:]])

    def _add(self, kind: str, value: Any) -> str:
        key = _key_of(value)
        token = self._tokens.get(key)
        if token is None:
            self._counts[kind] += 1
            token = f"[{kind}_{self._counts[kind]}]"
            self._tokens[key] = token
            self._values[token] = value
        return token

    def _name_token(self, kind: str, value: Any) -> str:
        return self._tokens.get(_key_of(value), f"[{kind}]")


def _key_of(value: object) -> tuple[type, object]:
    """Return a key that differs for different values: the number 1 is not the string "1"."""
    return type(value), value


def _map_values(value: Any, change: Change) -> Any:
    """Return a value with each string and number in it changed; the same object if nothing changes."""
    match value:
        case str() | int():
            return change(value)
        case Mapping():
            # Any: JSON data, or what a caller passes.
            by_key: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
            # A token that stands alone may be a number, which is no key of JSON.
            keys = [str(change(key)) if isinstance(key, str) else key for key in by_key]
            changed = dict(zip(keys, (_map_values(one, change) for one in by_key.values()), strict=True))
            same = len(changed) == len(by_key) and all(by_key.get(key) is one for key, one in changed.items())
            return by_key if same else changed
        case list() | tuple():
            # Any: as above.
            items: list[Any] = [*value]
            several = [_map_values(one, change) for one in items]
            if all(map(operator.is_, several, items)):
                return value  # pyright: ignore[reportUnknownVariableType]
            return several if isinstance(value, list) else tuple(several)
        case SystemMessage() | UserMessage() | ToolMessage() | AssistantMessage():
            return _map_message(value, change, lambda text: _map_json(text, change))
        case _:
            return _map_foreign_message(value, change)


def _map_message(message: M, change: Change, change_json: Change) -> M:
    """Return a message with its content and the arguments of its calls changed, which are JSON."""
    content = str(change(message.content))
    if not isinstance(message, AssistantMessage):
        return message if content == message.content else dataclasses.replace(message, content=content)
    named = [(str(change(call.name)), str(change_json(call.arguments))) for call in message.tool_calls]
    if content == message.content and named == [(call.name, call.arguments) for call in message.tool_calls]:
        return message
    calls = tuple(
        dataclasses.replace(call, name=name, arguments=arguments)
        for call, (name, arguments) in zip(message.tool_calls, named, strict=True)
    )
    return dataclasses.replace(message, content=content, tool_calls=calls)


def _map_json(text: str, change: Change) -> str:
    """Return JSON with the strings and the numbers in it changed; what is not JSON is changed as one string."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return str(change(text))
    changed = _map_values(data, change)
    return text if changed is data else json.dumps(changed, ensure_ascii=False)


def _map_foreign_message(value: Any, change: Change) -> Any:
    """Return a message of another library, which is a pydantic model, with its content changed."""
    content = getattr(value, "content", None)
    copy = getattr(value, "model_copy", None)
    if not isinstance(content, (str, list)) or copy is None:
        return value
    return copy(update={"content": _map_values(content, change)})


def _map_inputs(run: Run, change: Change) -> Run:
    """Return the run with the values of its inputs changed; their names stay."""
    inputs = {key: _map_values(value, change) for key, value in run.inputs.items()}
    return dataclasses.replace(run, inputs=inputs)


def _map_input(action: AgentAction, change: Change) -> AgentAction:
    changed = _map_values(action.tool_input, change)
    if isinstance(action.tool_input, str):
        changed = str(changed)
    return action if changed is action.tool_input else dataclasses.replace(action, tool_input=changed)


def _hide_result(result: ToolResult, hide: Change) -> ToolResult:
    data = dump_observation(result.observation)
    hidden = _map_values(data, hide)
    text = None if result.model_text is None else hide(result.model_text)
    # What holds no match stays an object of its class.
    observation = result.observation if hidden is data else hidden
    return dataclasses.replace(result, observation=observation, model_text=text)


def _map_ending(ending: E, change: Change, run: Run) -> E:
    if isinstance(ending, StoppedResponse):
        return dataclasses.replace(ending, output=str(change(ending.output)), run=run)
    values = _map_values(dict(ending.return_values), change)
    log, unread = str(change(ending.log)), str(change(ending.unread))
    return dataclasses.replace(ending, return_values=values, log=log, unread=unread, run=run)


def _show_run(run: Run, vault: _Vault, name: str) -> Run:
    """Return the run with its inputs and its steps restored, and without the vault."""
    if name not in run.aside.state:
        return run
    state = {key: value for key, value in run.aside.state.items() if key != name}
    steps = Steps([_show_step(step, vault) for step in run.steps])
    return dataclasses.replace(_map_inputs(run, vault.show), steps=steps).with_aside(state=state)


def _show_step(step: AgentStep, vault: _Vault) -> AgentStep:
    show, action = vault.show, _map_input(step.action, vault.show)
    message = action.message
    if message is not None:
        message = _map_message(message, show, vault.show_json)
    action = dataclasses.replace(action, log=str(show(action.log)), message=message, unread=str(show(action.unread)))
    text = None if step.model_text is None else str(show(step.model_text))
    return dataclasses.replace(step, action=action, observation=_map_values(step.observation, show), model_text=text)
