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

# Seconds. The waits double up to one minute; a longer wait rarely helps.
LONGEST_WAIT = 60.0


@final
class ToolRaisedError(Exception):
    """A tool raised `error`. The wrapper separates errors of the tool from errors of the code that calls it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


@final
@dataclass(frozen=True, slots=True)
class ToolRetried:
    """Progress: `tool` raised `error` at this `attempt` (the first is 1), and is called again after `wait` seconds."""

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

# Decides if an exception in a tool becomes an observation, which a function may write, or ends the run.
ErrorPolicy: TypeAlias = Literal["observe", "raise"] | Callable[[Exception], str]


# The model sees this many errors of one call, so that a long list with an error in each item does not fill its context.
_MAX_ERRORS = 5


POLICY = Constraint(
    "'observe', 'raise', or a function (def) from the exception to a string",
    lambda value: value in ("observe", "raise") or (callable(value) and not inspect.iscoroutinefunction(value)),
)
_LIST = Constraint(
    "a list of tools, [] for none",
    lambda value: isinstance(value, Iterable) and not isinstance(value, (str, Mapping)),
)
_ASYNC_FUNCTION = Constraint("a function (async def)", inspect.iscoroutinefunction)
LENGTH = whole(1, "a whole number of characters, 1 or more")


class InvalidArgumentsError(ValueError):
    """The arguments of a call do not fit the tool; the message tells the model what to correct."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tool(Generic[P, R_co]):
    """A function that a model may call. Calling the tool calls the function.

    `timeout` is in seconds, for one attempt. With `return_direct` the result of a successful call is the run's answer.
    `parameters` is the JSON schema of the arguments. The parameters in `run_parameters` receive the run so far; the
    `call_parameter` receives the `CallContext`, whose context must be an instance of all `context_types`. For
    `on_error` and `max_observation` (characters), `None` means the executor's default. Async runs call the
    `async_function`, if there is one, instead of `function`. For a tool that runs an executor, `nested` describes what
    its nested runs charge.
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
    run_parameters: tuple[str, ...] = ()
    call_parameter: str | None = None
    context_types: tuple[type, ...] = ()
    async_function: Callable[..., Any] | None = None
    nested: NestedRuns | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function directly: without validation or timeout, and its exceptions are raised."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.signature}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, in order."""
        return tuple(self.parameters["properties"])

    @property
    def signature(self) -> str:
        """The signature as a model sees it: `convert(value: number, unit?: string)`."""
        properties: Mapping[str, Mapping[str, Any]] = self.parameters["properties"]
        required = self.parameters.get("required", ())
        shown = ", ".join(
            f"{name}{'' if name in required else '?'}: {_format_schema(schema)}" for name, schema in properties.items()
        )
        return f"{self.name}({shown})"

    @property
    def spec(self) -> ToolSpec:
        """The tool's part of a model request."""
        return ToolSpec(self.name, self.description, self.parameters)

    def read(self, tool_input: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments by name.

        A string is the only (required) argument, or a JSON object with all arguments. Raises `InvalidArgumentsError`.
        """
        *preferred, last = self._interpretations(tool_input) if isinstance(tool_input, str) else (tool_input,)
        validate = self.arguments.validator.validate_python
        for arguments in preferred:
            with contextlib.suppress(ValidationError):
                return dict(validate(arguments))
        try:
            return dict(validate(last))
        except ValidationError as error:
            errors = [
                f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: {detail['msg']}"
                for detail in error.errors(include_url=False)
            ]
            more = f"; and {len(errors) - _MAX_ERRORS} more" if len(errors) > _MAX_ERRORS else ""
            what = "; ".join(errors[:_MAX_ERRORS]) + more
            raise InvalidArgumentsError(f"{self.name} was not called: {what}. Call it as {self.signature}.") from None

    def _interpretations(self, text: str) -> tuple[Mapping[str, Any], ...]:
        """Return the arguments that a string can stand for, the more likely ones first."""
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
        # The JSON may be the value of an argument that is a list or an object.
        return (as_text,) if decoded is None else (as_text, {alone: decoded})


# A tool with any function, for collections of tools. Only `...` erases a parameter list.
AnyTool: TypeAlias = Tool[..., Any]


def tools_by_name(tools: Iterable[AnyTool]) -> Mapping[str, AnyTool]:
    """Return the tools by name. Raises `ToolDefinitionError` if an item is not a tool, or if two have the same name."""
    if isinstance(tools, Tool):
        raise ToolDefinitionError(f"tools is the tool {tools.name} itself; pass a list of tools")
    validate("", ("tools", tools, _LIST), error=ToolDefinitionError)
    by_name: dict[str, AnyTool] = {}
    for one in tools:
        # Users may pass plain functions.
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
# One keyword for each setting, as in the decorators of other libraries.
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
    """Make a tool from a typed function, `def` or `async def`.

    The tool's name is the function's name, its description is the docstring, and pydantic derives its schema from the
    annotations (`Annotated[str, Field(description=...)]` describes an argument). A parameter annotated `Run` receives
    the run so far. A parameter annotated `CallContext[User]` receives the call's `CallContext`: its id, the run's
    `context` and the remaining seconds.

    If the function raises one of `retry_on`, it is called up to `retries` more times: after `retry_wait` seconds, then
    after twice as long each time, up to one minute. `timeout` is in seconds, for one attempt; after a timeout there are
    no further attempts. All attempts count as one tool call. An exception becomes an observation, unless `on_error` is
    "raise" or a function from the exception to the observation. The model sees the first `max_observation` characters
    of an observation. Async runs call the `async_function`, which has the same parameters, if there is one.

    Raises `ToolDefinitionError` for an argument without an annotation or a schema, for `*args` and `**kwargs`, for a
    missing description, and for an invalid option.
    """
    if isinstance(function, str):
        raise ToolDefinitionError(
            f"tool was given the string {format_value(function)}; write @tool(name={format_value(function)}), say"
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
    """Return a short form of a JSON schema: `string`, `"C" | "F"`, `list of number`, or the name of a class."""
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
        if not (isinstance(one, type) and issubclass(one, Exception)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolDefinitionError(f"{name} has {one!r} in retry_on; give classes of Exception")
    if not times and (wait or classes != (Exception,)):
        raise ToolDefinitionError(f"{name} has retry_on or retry_wait but no retries; add retries=2, say")
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
    tool_name = name or str(getattr(function, "__name__", type(function).__name__))
    summary = description or inspect.getdoc(function)
    if not summary:
        raise ToolDefinitionError(f"{tool_name} has no docstring, so no model knows what it does; write one line")
    # Loads pydantic, which programs without tools do not need.
    from graphexec.tools.arguments import read_signature

    read = read_signature(function, tool_name)
    schema = read.arguments.json_schema()
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for argument in schema["properties"].values():
        argument.pop("title", None)
    is_async = inspect.iscoroutinefunction(function)
    return Tool(
        tool_name,
        summary,
        schema,
        function,
        read.arguments,
        is_async=is_async,
        run_parameters=read.run_parameters,
        call_parameter=read.call_parameter,
        context_types=() if read.context_type is None else (read.context_type,),
    )
