"""The piece `output_type`: the answer of a run is an instance of a type, or the model is asked again."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, final

from graphexec._arguments import validate, whole
from graphexec._parsing.json import read_json
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run
from graphexec.agents import Agent
from graphexec.agents.reading.json_text import find_regions
from graphexec.agents.reading.text_parsing import strip_fence
from graphexec.agents.small.tool_choice import is_tiny
from graphexec.errors import InputError, NestedRunError, OutputError, format_value
from graphexec.executor.nodes import EXCEPTION_TOOL, Edit
from graphexec.executor.outcomes import Ready, limit_reached
from graphexec.executor.plugging import Piece
from graphexec.kernel.meters import Meter
from graphexec.kernel.node import node
from graphexec.messages import ChatRequest, CompletionRequest, Message, ModelRequest, SystemMessage, UserMessage
from graphexec.messages.observations import format_observation, write_json
from graphexec.messages.stored import StoredForm, TypedValues
from graphexec.tools.schemas import map_schemas

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# The only member of the object that is asked for where a schema must be that of an object.
_ANSWER: Final = "answer"
# The providers whose replies follow a schema and may call a tool instead; other servers forbid one or the other.
_SCHEMA_WITH_TOOLS = frozenset({"openai", "anthropic"})
# The providers that refuse a schema.
_WITHOUT_SCHEMA = frozenset({"deepseek"})
# Pieces of JSON in a reply that are tried, and errors that a model is shown: a hostile reply may have any number.
_MOST_REGIONS = 50
_MOST_ERRORS = 5
# Their members may be data in place of instances.
_CONTAINERS = frozenset[type]({dict, list, tuple, set, frozenset})
# Characters. A longer schema is not repeated with each error.
_SHORT_SCHEMA = 1_500
# Characters of a string in an answer whose type has no limit: a small model may not find its end.
_MOST_TEXT = 300


class UnreadableOutputError(Exception):
    """A text that is not an instance of the type; the message says why, for the model."""


@final
@dataclass(frozen=True, slots=True)
class InvalidOutput:
    """The answer is no instance of the output type: its text, and `why`, for the model."""

    run: Run
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class OutputKind:
    """A type with its validator and its JSON schema. Created by `make_output_kind`."""

    name: str
    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]

    @property
    def is_text(self) -> bool:
        """Is true if any text may be an instance, which is then not read as JSON."""
        return self.schema.get("type") == "string" and not {"enum", "const", "format"} & {*self.schema}

    @property
    def is_object(self) -> bool:
        """Is true if instances are objects of JSON, as providers require it of a schema."""
        return self.schema.get("type") == "object"

    @property
    def reply_schema(self) -> Mapping[str, Any] | None:
        """The schema of a whole reply: of an object, or of one with the member `answer`; `None` for a text."""
        if self.is_text:
            return None
        if self.is_object:
            return self.schema
        schema = dict(self.schema)
        definitions = schema.pop("$defs", None)
        wrapped = {
            "type": "object",
            "properties": {_ANSWER: schema},
            "required": [_ANSWER],
            "additionalProperties": False,
        }
        return wrapped if definitions is None else {**wrapped, "$defs": definitions}

    def describe(self) -> str:
        """Return what an answer looks like, as a part of a sentence for a model."""
        if self.is_text:
            return "text"
        properties: Mapping[str, Any] = self.schema.get("properties", {})
        if self.is_object and properties and "$defs" not in self.schema:
            return f"JSON with the fields {', '.join(properties)}"
        return f"JSON that follows this schema: {json.dumps(self.schema, ensure_ascii=False)}"

    def read(self, value: object) -> Any:
        """Return the instance in an answer: JSON as a whole, in a fence or in prose, or a value that is an instance.

        Raises `UnreadableOutputError` for any other value, and for two different instances in one text.
        """
        if not isinstance(value, str):
            return self._convert(value)
        if self.is_text:
            return self._validate(lambda: self.adapter.validate_python(value))
        text = strip_fence(value.strip())
        if not text:
            raise UnreadableOutputError("it is empty")
        try:
            return self._read_json(text)
        except UnreadableOutputError as error:
            failed = error
        try:
            # Not a container, so it is what a person would write: 5, true, a date.
            value = self._validate(lambda: self.adapter.validate_strings(text))
        except UnreadableOutputError:
            return self._read_in_prose(text, failed)
        if isinstance(value, float) and not math.isfinite(value):
            raise UnreadableOutputError("it is not a finite number")
        return value

    def restore(self, value: object) -> Any:
        """Return an instance from a value that a run has returned; a stored one is JSON data.

        Raises `OutputError` for any other value.
        """
        try:
            return self._convert(value)
        except UnreadableOutputError as error:
            raise OutputError(
                f"the run has returned {format_value(value)}, which is no {self.name}: {error}; a later node has "
                "changed the answer, so put output_type before it in the list, or return an instance there"
            ) from None

    def dump(self, instance: object, source: object) -> tuple[StoredForm, Any]:
        """Return JSON data from which `load` makes the same instance: those of the instance, or its source, a text.

        Raises `ValueError` if there are none.
        """
        from graphexec.kernel.exactness import HIDDEN_REMEDY, find_difference
        from graphexec.kernel.serialization import dump_exactly

        try:
            data = dump_exactly(instance, self.adapter, self.name, lambda _, data: self.load("data", data))
        except ValueError as error:
            # Read again, a text gives the same instance, unless a validator changes its mind; it would show a secret.
            if (
                HIDDEN_REMEDY in str(error)
                or not isinstance(source, str)
                or find_difference(instance, self.read(source)) is not None
            ):
                raise
            return "text", source
        return "data", data

    # Any: JSON data.
    def load(self, form: StoredForm, stored: Any) -> Any:
        """Return the instance in what `dump` has returned. Raises `OutputError` for anything else."""
        from graphexec.kernel.serialization import format_json

        try:
            if form == "text":
                return self.read(stored)
            written = format_json(stored)
            return self._validate(lambda: self.adapter.validate_json(written, by_alias=True, by_name=True))
        except UnreadableOutputError as error:
            raise OutputError(
                f"the stored answer is no {self.name}: {error}; resume the run with the output type that it had"
            ) from None

    def _convert(self, value: object) -> Any:
        try:
            validated = self._validate(lambda: self.adapter.validate_python(value, strict=True))
        except UnreadableOutputError:
            return self._coerce(value)
        # An instance stays as it is; its validators do not run twice.
        return value if type(validated) is type(value) and type(value) not in _CONTAINERS else validated

    def _coerce(self, value: object) -> Any:
        try:
            return self._validate(lambda: self.adapter.validate_python(value))
        except UnreadableOutputError:
            written = write_json(value)
            if written is None:
                raise
            return self._validate(lambda: self.adapter.validate_json(written))

    def _read_json(self, text: str) -> Any:
        try:
            valid, _ = read_json(text)
        except (ValueError, RecursionError) as error:
            raise UnreadableOutputError(f"it is not JSON: {error}") from None
        written = valid.encode(errors="surrogatepass")
        if not self.is_object:
            inner: Any = json.loads(valid)
            if isinstance(inner, dict) and [*inner] == [_ANSWER]:  # pyright: ignore[reportUnknownArgumentType]
                return self._validate(lambda: self.adapter.validate_json(json.dumps(inner[_ANSWER])))
        return self._validate(lambda: self.adapter.validate_json(written))

    def _read_in_prose(self, text: str, failed: UnreadableOutputError) -> Any:
        """Return the only instance in the pieces of JSON in a text."""
        # Any: instances of the type.
        found: list[Any] = []
        for _, region in zip(range(_MOST_REGIONS), find_regions(text), strict=False):
            if region.text == text:
                continue
            try:
                instance = self._read_json(region.text)
            except UnreadableOutputError as error:
                # Of the last piece: its errors say more than that prose is not JSON.
                failed = error if region.is_json else failed
                continue
            if all(write_json(instance) != write_json(one) for one in found):
                found.append(instance)
        if len(found) > 1:
            raise UnreadableOutputError(f"it has {len(found)} answers; give one")
        if not found:
            raise failed
        return found[0]

    def _validate(self, validate: Any) -> Any:
        # Any: a function of no arguments, of a type that only pydantic knows.
        from pydantic import ValidationError

        try:
            return validate()
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            raise UnreadableOutputError(_describe_errors(errors)) from None
        except NestedRunError:
            # A mistake of the program, which no other answer of the model mends.
            raise
        except Exception as error:  # noqa: BLE001 - the validators of a user's type may raise anything
            raise UnreadableOutputError(f"it was refused ({type(error).__name__}: {error})") from None

    def explain(self, why: str) -> str:
        """Return the observation of the model about an invalid answer."""
        text = f"The answer is not valid: {why}. Answer with {self.describe()}."
        schema = json.dumps(self.schema, ensure_ascii=False)
        if self.is_text or len(schema) > _SHORT_SCHEMA or schema in text:
            return text
        return f"{text} Its schema is {schema}"

    def edit_for(self, agent: Agent) -> Edit | None:
        """Return what adds a note to an agent's requests, and the schema of the type where its provider has that.

        Return `None` for an agent that is a function, which makes no requests.
        """
        if agent.function is not None:
            return None
        if agent.kind == "structured":
            return self._edit_decision
        provider = str(getattr(agent.model, "provider", "")).lower()
        schema = None if agent.kind != "tool_calling" or provider in _WITHOUT_SCHEMA else self.reply_schema
        if schema is not None and agent.model is not None and is_tiny(agent.model):
            schema = limit_text(schema)

        def edit(request: ModelRequest, _: Run) -> ModelRequest:
            note = "" if self.is_text else f"Your final answer is {self.describe()}."
            if isinstance(request, CompletionRequest):
                return dataclasses.replace(request, prompt=f"{note}\n\n{request.prompt}".lstrip())
            noted = dataclasses.replace(request, messages=_note_messages(request.messages, note))
            may_call = bool(noted.tools) and noted.tool_choice != "none"
            if schema is None or (may_call and provider not in _SCHEMA_WITH_TOOLS):
                return noted
            return dataclasses.replace(noted, schema=schema)

        return edit

    def _edit_decision(self, request: ModelRequest, _: Run) -> ModelRequest:
        """Return a request of a structured agent, whose schema has the answer as one branch, with the type in it."""
        if self.is_text or not isinstance(request, ChatRequest):
            return request
        messages = _note_messages(request.messages, f'The "answer" of final_answer is {self.describe()}.')
        noted = dataclasses.replace(request, messages=messages)
        branches: Sequence[Mapping[str, Any]] = (request.schema or {}).get("anyOf", ())
        schema = limit_text(self.schema)
        definitions = schema.pop("$defs", {})
        edited = [
            {**branch, "properties": {**branch["properties"], _ANSWER: schema}}
            if _ANSWER in branch["properties"]
            else branch
            for branch in branches
        ]
        if not edited:
            return noted
        # The definitions of tools have the prefix of the tool, so their names differ from these.
        every = {**(request.schema or {}).get("$defs", {}), **definitions}
        return dataclasses.replace(noted, schema={"anyOf": edited, **({"$defs": every} if every else {})})


# Any: a JSON schema.
def limit_text(schema: Any) -> Any:
    """Return a schema whose strings have a greatest length."""
    limited = map_schemas(schema, limit_text)
    match limited:
        case {"type": "string"} if not {"enum", "const", "format", "pattern", "maxLength"} & {*limited}:
            return {**limited, "maxLength": max(_MOST_TEXT, limited.get("minLength", 0))}
        case _:
            return limited


def _note_messages(messages: Sequence[Message], note: str) -> tuple[Message, ...]:
    """Return messages with a sentence, or none, after their instructions, which are left out if they are empty."""
    first, *others = messages
    match first:
        case SystemMessage(content):
            text = f"{content}\n\n{note}".strip()
            return (SystemMessage(text), *others) if text else (*others,)
        case UserMessage(content):
            return (dataclasses.replace(first, content=f"{note}\n\n{content}".lstrip()), *others)
        case _:
            return (SystemMessage(note), *messages) if note else (*messages,)


# Any: the details of pydantic's errors.
def _describe_errors(errors: Sequence[Any]) -> str:
    shown = [(".".join(map(str, error["loc"]))[:100], error["msg"][:200]) for error in errors[:_MOST_ERRORS]]
    lines = [f"{where}: {text}" if where else text for where, text in shown]
    if len(errors) > _MOST_ERRORS:
        lines.append(f"and {len(errors) - _MOST_ERRORS} more errors")
    return "; ".join(lines)


def make_output_kind(kind: Any) -> OutputKind:
    """Return the kind of a type. Raises `InputError` for another object, and for a type without a JSON schema."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    name = getattr(kind, "__name__", None) if isinstance(kind, type) else None
    shown = name or format_value(kind)
    values = (str, bytes, int, float, dict, list, tuple, set, FunctionType)
    if kind is None or isinstance(kind, values) or _is_instance(kind):
        raise InputError(
            f"the output type is {shown}, which is not a type; give a class, such as a pydantic model, or int"
        )
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        fact = str(error).partition("\n")[0]
        raise InputError(
            f"the output type {shown} has no JSON schema: {fact}; give a pydantic model, a dataclass or a simple type"
        ) from error
    return OutputKind(name or str(kind), adapter, schema)


def _is_instance(kind: object) -> bool:
    """Return whether a value is an instance of a class with fields, not the class itself."""
    return not isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(type(kind), "model_fields"))


# Any: pydantic takes more than classes, such as `int | None` and `Literal["a", "b"]`.
def output_type(kind: Any, *, reasks: int = 2, name: str = "output_type") -> Piece:
    """Make each answer of the agent an instance of a type, or ask the model again.

    `kind` is what pydantic validates: a model, a dataclass, a `TypedDict`, an enumeration, `Literal["a", "b"]`, a
    union, `list[Item]`, `int` or `datetime`. The answer is read as JSON: as a whole, in a fence or in prose, with the
    coercions of pydantic. If it is no instance, the model reads the errors and decides again, at most `reasks` times
    in a run, within `max_iterations`; then the run ends with a `StoppedResponse` whose reason is `reasks`. Nothing else
    than an instance comes out, and no answer raises.

    The requests have the type's JSON schema where the provider lets replies follow one, and a note in the instructions.
    The bound: at most `2 + 2 * reasks` more transitions, and no more model calls than `max_iterations`.

        class City(BaseModel):
            name: str
            country: str

        executor = create_agent("openai:gpt-5-mini", output_type=City)
        print(executor.run("Where is the Louvre?").output.country)

    `create_agent(output_type=...)` plugs this piece, and type checkers then know the class of `result.output`. Put
    pieces that change the answer's text behind it: earlier in the list of `nodes`. Raises `InputError` for what is not
    a type, for a type without a JSON schema, and for invalid `reasks`. An executor has at most one output type.
    """
    validate("output_type", ("reasks", reasks, whole(0)))
    known = make_output_kind(kind)

    @node(name=name)
    def judge_output(finish: AgentFinish) -> AgentFinish | InvalidOutput:
        """Return the finish with the instance in its answer, or why the answer is none."""
        values: Mapping[str, Any] = finish.return_values
        # As `finish.answer`: an only value may have any name.
        only = next(iter(values)) if len(values) == 1 else "output"
        try:
            instance = known.read(finish.answer)
        except UnreadableOutputError as error:
            return InvalidOutput(finish.run, finish.log or format_observation(finish.answer), str(error))
        kept: Mapping[str, Any] = values if only in values else {}
        dump = partial(known.dump, source=finish.answer)
        return dataclasses.replace(finish, return_values=TypedValues({**kept, only: instance}, only, dump=dump))

    # The name of the meter is the reason of a run that has used it up.
    @node(name=f"{name}_reask", when_spent=limit_reached, meters=[Meter("reasks", reasks)])
    def reask_output(invalid: InvalidOutput) -> Ready:
        """Show the model the errors of its answer, as an observation."""
        observation = known.explain(invalid.why)
        action = AgentAction(EXCEPTION_TOOL, observation, invalid.text)
        return Ready(invalid.run.with_steps((AgentStep(action, observation, "parse_error"),)))

    return Piece(name, (judge_output, reask_output), output=known)
