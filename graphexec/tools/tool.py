"""A tool: a typed function that a model may call, with its name, description and JSON schema."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, final, overload

from pydantic_core import ValidationError

from graphexec._arguments import FLAG, NAME, SECONDS, STRING, TIMEOUT, Constraint, optional, validate, whole
from graphexec._json import read_container
from graphexec.errors import ToolDefinitionError, described, format_value
from graphexec.kernel.effects import NestedRuns
from graphexec.messages import ToolSpec
from graphexec.runtime.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Seconds. Waits double; beyond a minute, waiting longer has stopped helping.
LONGEST_WAIT = 60.0


@final
class ToolRaisedError(Exception):
    """What a tool raised: `error`. So it cannot be mistaken for what is raised around the tool."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


@final
@dataclass(frozen=True, slots=True)
class ToolRetried:
    """News: `tool` raised `error` at this `attempt` (the first is 1), and is called again after `wait` seconds."""

    tool: str
    error: Exception
    attempt: int
    wait: float = 0.0

    def __str__(self) -> str:
        text = f"attempt {self.attempt} of {self.tool} failed with {described(self.error)}"
        return f"{text}; the next one follows in {self.wait:.1f} s"


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

# What an exception in a tool becomes: an observation that tells the model, in our words or in those that a function
# makes of it, or the end of the run.
ErrorPolicy: TypeAlias = Literal["observe", "raise"] | Callable[[Exception], str]


# How many faults of a call the model is told: a long list with one mistake per item is not to fill its context.
_FAULTS = 5


POLICY = Constraint(
    "'observe', 'raise', or a function (def) from the exception to a text",
    lambda value: value in ("observe", "raise") or (callable(value) and not inspect.iscoroutinefunction(value)),
)
_LIST = Constraint(
    "a list of tools, [] for none",
    lambda value: isinstance(value, Iterable) and not isinstance(value, (str, Mapping)),
)
_ASYNC_FUNCTION = Constraint("a function (async def)", inspect.iscoroutinefunction)
LENGTH = whole(1, "a whole number of characters, 1 or more")


class InvalidArgumentsError(ValueError):
    """A call's arguments do not fit the tool; the text tells the model what to mend."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tool(Generic[P, R_co]):
    """A function as a model sees it; calling the tool calls the function.

    `timeout` is in seconds, for one attempt. With `return_direct` the result of a successful call is the run's answer.
    `parameters` is the JSON schema of the arguments; the parameters `given_the_run` get the run so far, and the
    `call_parameter` the `CallContext`, whose context must be one of each of `context_types`. `on_error` and
    `max_observation` (characters): `None` is the executor's default. An `async_function` is called instead in async
    runs. `nested` is what the runs charge that a call starts, of a tool that runs an executor.
    """

    name: str
    description: str
    # A JSON schema: its values are arbitrary JSON.
    parameters: Mapping[str, Any]
    function: Callable[P, R_co]
    arguments: TypeAdapter[Any]
    return_direct: bool = False
    timeout: float | None = None
    on_error: ErrorPolicy | None = None
    is_async: bool = False
    retry: RetryPolicy | None = None
    max_observation: int | None = None
    given_the_run: tuple[str, ...] = ()
    call_parameter: str | None = None
    context_types: tuple[type, ...] = ()
    async_function: Callable[..., Any] | None = None
    nested: NestedRuns | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself: no validation, no timeout, and its exceptions are raised."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.signature}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, in order."""
        return tuple(self.parameters["properties"])

    @property
    def signature(self) -> str:
        """The call as one would write it: `convert(value: number, unit?: string)`."""
        properties: Mapping[str, Mapping[str, Any]] = self.parameters["properties"]
        required = self.parameters.get("required", ())
        shown = ", ".join(
            f"{name}{'' if name in required else '?'}: {_format_schema(schema)}" for name, schema in properties.items()
        )
        return f"{self.name}({shown})"

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is told to a model."""
        return ToolSpec(self.name, self.description, self.parameters)

    def read(self, tool_input: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments by name. Text is the one (required) argument, or a JSON object with all.

        Raises `InvalidArgumentsError`.
        """
        *likelier, last = self._readings(tool_input) if isinstance(tool_input, str) else (tool_input,)
        validate = self.arguments.validator.validate_python
        for reading in likelier:
            with contextlib.suppress(ValidationError):
                return dict(validate(reading))
        try:
            return dict(validate(last))
        except ValidationError as error:
            faults = [
                f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
                for fault in error.errors(include_url=False)
            ]
            more = f"; and {len(faults) - _FAULTS} more" if len(faults) > _FAULTS else ""
            what = "; ".join(faults[:_FAULTS]) + more
            raise InvalidArgumentsError(f"{self.name} was not called: {what}. Call it as {self.signature}.") from None

    def _readings(self, text: str) -> tuple[Mapping[str, Any], ...]:
        """What text as a whole can mean, the likelier first."""
        names = self.names
        required = self.parameters.get("required", ())
        alone = names[0] if len(names) == 1 else required[0] if len(required) == 1 else None
        try:
            decoded: dict[str, Any] | list[Any] | None = read_container(text)
        except ValueError:
            decoded = None
        if isinstance(decoded, dict) and (alone is None or alone in decoded):
            return (decoded,)
        if not names:
            return ({},)
        if alone is None:
            raise InvalidArgumentsError(
                f"{self.name} was not called: its input is not a JSON object with {', '.join(names)}. "
                f"Call it as {self.signature}."
            )
        as_text = {alone: text}
        # A list or an object for an argument that is one.
        return (as_text,) if decoded is None else (as_text, {alone: decoded})


# A tool whatever its function: how sets of tools are typed. A parameter list cannot be erased but by `...`.
AnyTool: TypeAlias = Tool[..., Any]


def tools_by_name(tools: Iterable[AnyTool]) -> Mapping[str, AnyTool]:
    """Return the tools by name. Raises `ToolDefinitionError` for what is no tool, and for a name given twice."""
    if isinstance(tools, Tool):
        raise ToolDefinitionError(f"tools is the tool {tools.name} itself; pass a list of tools")
    validate("", ("tools", tools, _LIST), error=ToolDefinitionError)
    by_name: dict[str, AnyTool] = {}
    for one in tools:
        # Users without a type checker pass functions.
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            name = getattr(one, "__name__", repr(one))
            raise ToolDefinitionError(f"{name} is not a tool; decorate the function with @tool")
        if one.name in by_name:
            raise ToolDefinitionError(f"two tools are named {one.name}; rename one with @tool(name=...)")
        by_name[one.name] = one
    return by_name


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    return_direct: bool = False,
    timeout: float | None = None,
    on_error: ErrorPolicy | None = None,
    retries: int = 0,
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
    retry_wait: float = 0.0,
    max_observation: int | None = None,
    async_function: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
# One keyword per setting is what people know from other decorators of tools.
def tool(  # noqa: PLR0913
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    return_direct: bool = False,
    timeout: float | None = None,
    on_error: ErrorPolicy | None = None,
    retries: int = 0,
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
    retry_wait: float = 0.0,
    max_observation: int | None = None,
    async_function: Callable[..., Any] | None = None,
) -> Any:
    """Make a tool of a typed function, `def` or `async def`.

    Its name is the function's, its description the docstring, its schema what pydantic makes of the annotations
    (`Annotated[str, Field(description=...)]` describes an argument). A parameter annotated `Run` gets the run so far,
    and one annotated `CallContext[User]` the call's `CallContext`: its id, the run's `context`, the seconds left.

    An exception becomes an observation; `on_error` may be "raise", or a function from the exception to the observation.
    Before, the function is called up to `retries` more times where it raises `retry_on`: `retry_wait` seconds later,
    then twice that, up to a minute. `timeout` is in seconds, for one attempt, and ends the attempts. All attempts count
    as one tool call. The model sees the first `max_observation` characters of an observation. An `async_function` with
    the same parameters is called instead in async runs.

    Raises `ToolDefinitionError` for an argument without an annotation or a schema, for `*args` and `**kwargs`, for a
    missing description, and for an invalid option.
    """
    if isinstance(function, str):
        raise ToolDefinitionError(
            f"tool was given the text {format_value(function)}; write @tool(name={format_value(function)}), say"
        )
    subject = name if isinstance(name, str) and name else "a tool"
    validate(
        subject,
        ("name", name, optional(NAME, "that of the function")),
        ("description", description, optional(STRING, "the docstring")),
        ("return_direct", return_direct, FLAG),
        ("timeout", timeout, optional(TIMEOUT)),
        ("on_error", on_error, optional(POLICY, "the executor's")),
        ("retries", retries, whole(0, "a whole number, 0 for none")),
        ("retry_wait", retry_wait, SECONDS),
        ("max_observation", max_observation, optional(LENGTH, "the executor's")),
        ("async_function", async_function, optional(_ASYNC_FUNCTION, "the function, in a thread")),
        error=ToolDefinitionError,
    )
    retry = _make_retry_policy(retries, retry_on, retry_wait, subject)

    def decorate(undecorated: Callable[..., Any]) -> AnyTool:
        return dataclasses.replace(
            _make_tool(undecorated, name, description),
            return_direct=return_direct,
            timeout=timeout,
            on_error=on_error,
            retry=retry,
            max_observation=max_observation,
            async_function=async_function,
        )

    return decorate if function is None else decorate(function)


def _format_schema(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a word or two: `string`, `"C" | "F"`, `list of number`, the name of a class."""
    match schema:
        case {"enum": [*values]}:
            return " | ".join(json.dumps(value) for value in values)
        case {"const": value}:
            return json.dumps(value)
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"anyOf": [*kinds]}:
            return " | ".join(_format_schema(kind) for kind in kinds)
        case {"type": "array", "items": items}:
            return f"list of {_format_schema(items)}"
        case _:
            return str(schema.get("type", "any"))


def _make_retry_policy(
    times: int, on: type[Exception] | tuple[type[Exception], ...], wait: float, name: str
) -> RetryPolicy | None:
    classes = on if isinstance(on, tuple) else (on,)
    for one in classes:
        # Users without a type checker give texts, and classes that are no Exception.
        if not (isinstance(one, type) and issubclass(one, Exception)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolDefinitionError(f"{name} has {one!r} in retry_on; give classes of Exception")
    if not times and (wait or classes != (Exception,)):
        raise ToolDefinitionError(f"{name} says how to retry, but not to; add retries=2, say")
    if not times:
        return None
    return RetryPolicy(
        attempts=times + 1,
        may_pass=lambda raised: isinstance(raised, ToolRaisedError) and isinstance(raised.error, classes),
        first_wait=wait,
        longest_wait=max(wait, LONGEST_WAIT),
    )


def _make_tool(function: Callable[..., Any], name: str | None, description: str | None) -> AnyTool:
    if isinstance(function, Tool):
        raise ToolDefinitionError(f"{function.name} is a tool already; write @tool once")
    if not callable(function):
        raise ToolDefinitionError(f"tool was given {format_value(function)}; write @tool above a function, with def")
    called = name or str(getattr(function, "__name__", type(function).__name__))
    described = description or inspect.getdoc(function)
    if not described:
        raise ToolDefinitionError(f"{called} has no docstring, so no model knows what it does; write one line")
    # pydantic, which reads the annotations, is loaded by those who make tools.
    from graphexec.tools.arguments import read_signature

    read = read_signature(function, called)
    schema = read.arguments.json_schema()
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for argument in schema["properties"].values():
        argument.pop("title", None)
    is_async = inspect.iscoroutinefunction(function)
    return Tool(
        called,
        described,
        schema,
        function,
        read.arguments,
        is_async=is_async,
        given_the_run=read.given_the_run,
        call_parameter=read.call_parameter,
        context_types=() if read.context_type is None else (read.context_type,),
    )
