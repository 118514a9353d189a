"""A tool: a typed function that a model may call, with its name, description and JSON schema."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    final,
    overload,
)

from graphexec._arguments import NAME, STRING, is_executor, optional, validate
from graphexec._mistakes import explain_calls, explain_class
from graphexec._mistakes.remedies import TOOL_OPTIONS
from graphexec.errors import Portable, ToolDefinitionError, described, format_value
from graphexec.kernel.effects import InDoubt, NestedRuns
from graphexec.messages import ToolSpec
from graphexec.runtime.retry import RetryPolicy
from graphexec.tools.options import (
    ASYNC_FUNCTION,
    CONSTRAINTS,
    ErrorPolicy,
    ToolExample,
    ToolOptions,
    check_examples,
    describe_examples,
    read_options,
)
from graphexec.tools.reading import interpret, is_simple, mend, validate_json
from graphexec.tools.schemas import format_schema

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

    from graphexec.tools.arguments import Receiver


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
# The object that a method is taken from, and the parameters after it.
S = TypeVar("S")
Q = ParamSpec("Q")

# The model sees this many errors of one call, so that a long list with an error in each item does not fill its context.
_MAX_ERRORS = 5


class InvalidArgumentsError(Portable, ValueError):
    """The arguments of a call do not fit the tool; the message tells the model what to correct.

    `arguments` are the names of those that do not fit, if that is known.
    """

    def __init__(self, message: str, arguments: Sequence[str] = ()) -> None:
        self.arguments = tuple(arguments)
        super().__init__(message)


# Set by `Tool.__post_init__`.
_UNDEFINED: Any = None


@explain_class("Tool(name, func, description)", options=TOOL_OPTIONS)
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tool(Generic[P, R_co]):
    """A function that a model may call. Calling the tool calls the function.

    `Tool(name, func, description)` makes one of any function with annotations, or of a function without them that takes
    one string, as LangChain's class does; `description` is by default the docstring. The function may be `async def`.
    Async runs call the `coroutine` instead, if there is one. Raises `ToolDefinitionError` as `tool` does.

    `timeout` is in seconds, for one attempt. With `return_direct` the result of a successful call is the run's answer.
    `parameters` is the JSON schema of the arguments. The parameters in `run_parameters` receive the run so far; the
    `call_parameter` receives the `CallContext`, whose context must be an instance of all `context_types`. For
    `on_error`, `max_observation` and `max_tool_input` (characters), `None` means the executor's default. Async runs
    call the `async_function`, if there is one, instead of `function`. A method has a `receiver` until it is taken from
    an object. For a tool that runs an executor, `nested` describes what its nested runs charge, and `check_access`
    raises the error that a nested run would raise at once. `examples` are calls that agents show to their models. A
    `repeatable` tool may return another result for the same arguments, so the rules against repeated calls do not apply
    to it. `in_doubt` is for stored runs; see `tool`.
    """

    name: str
    # The names of LangChain's class; `function` and `async_function` hold the values.
    func: InitVar[Callable[P, R_co] | None] = None
    description: str = ""
    _: KW_ONLY
    coroutine: InitVar[Callable[..., Any] | None] = None
    # A JSON schema: its values are arbitrary JSON.
    parameters: Mapping[str, Any] = _UNDEFINED
    function: Callable[P, R_co] = _UNDEFINED
    arguments: TypeAdapter[Any] = _UNDEFINED
    return_direct: bool = False
    timeout: float | None = None
    on_error: ErrorPolicy | None = None
    is_async: bool = False
    retry: RetryPolicy | None = None
    max_observation: int | None = None
    max_tool_input: int | None = None
    run_parameters: tuple[str, ...] = ()
    call_parameter: str | None = None
    context_types: tuple[type, ...] = ()
    async_function: Callable[..., Any] | None = None
    receiver: Receiver | None = None
    nested: NestedRuns | None = None
    check_access: Callable[[], None] | None = None
    examples: tuple[ToolExample, ...] = ()
    repeatable: bool = False
    in_doubt: InDoubt = "tell"
    _is_simple: bool = field(default=False, init=False)

    def __post_init__(self, func: Callable[P, R_co] | None, coroutine: Callable[..., Any] | None) -> None:
        # Otherwise `tool` or `dataclasses.replace` has set all fields.
        if self.arguments is not _UNDEFINED:
            object.__setattr__(self, "_is_simple", is_simple(self.parameters))
            return
        validate(
            self.name if isinstance(self.name, str) and self.name else "a tool",  # pyright: ignore[reportUnnecessaryIsInstance]
            ("name", self.name, NAME),
            ("description", self.description, STRING),
            *((option, getattr(self, option), constraint) for option, constraint in CONSTRAINTS.items()),
            ("coroutine", coroutine, optional(ASYNC_FUNCTION, "func, in a thread")),
            error=ToolDefinitionError,
        )
        # Loads pydantic, which programs without tools do not need.
        from graphexec.tools.arguments import define_tool, rename_arguments

        given: Callable[..., Any] | None = func if func is not None else self.function
        called = given if given is not None else coroutine
        if called is None:
            raise ToolDefinitionError(f"{self.name} has no function; pass func=..., or coroutine=... for an async def")
        defined = define_tool(called, self.name, self.description, is_typed=False)
        if given is not None and coroutine is not None:
            second = define_tool(coroutine, self.name, self.description, is_typed=False)
            object.__setattr__(self, "async_function", rename_arguments(second, defined))
        for name, value in defined._asdict().items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_is_simple", is_simple(self.parameters))
        object.__setattr__(self, "examples", check_examples(self).examples)

    @classmethod
    def from_function(
        cls,
        func: Callable[..., Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        *,
        coroutine: Callable[..., Any] | None = None,
        args_schema: type[BaseModel] | None = None,
        return_direct: bool = False,
    ) -> AnyTool:
        """Return a tool of a function, as LangChain's `Tool.from_function` and `StructuredTool.from_function` do.

        The fields of `args_schema`, a pydantic model, are the arguments; by default they are the parameters. Raises
        `ToolDefinitionError` as `Tool` does.
        """
        from graphexec.tools.arguments import define_model_tool, describe

        called = func if func is not None else coroutine
        if called is None:
            raise ToolDefinitionError("from_function was given no function; pass func=..., or coroutine=...")
        if args_schema is None:
            named, described = describe(called, name, description)
            return Tool(named, func, described, coroutine=coroutine, return_direct=return_direct)
        defined = define_model_tool(called, name, description, args_schema)
        second = coroutine if func is not None else None
        return Tool(**defined._asdict(), return_direct=return_direct, async_function=second)

    @overload
    def __get__(self, instance: None, owner: type, /) -> Self: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type | None = None, /) -> Tool[Q, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None, /) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None, /) -> Any:
        """Bind a method to the object, or to the class, that it is taken from. Other tools stay as they are."""
        target = owner if self.receiver == "class" else instance
        if self.receiver is None or target is None:
            return self
        second = self.async_function
        return dataclasses.replace(
            self,
            function=MethodType(self.function, target),
            async_function=None if second is None else MethodType(second, target),
            receiver=None,
        )

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
            f"{name}{'' if name in required else '?'}: {format_schema(schema)}" for name, schema in properties.items()
        )
        return f"{self.name}({shown})"

    @property
    def spec(self) -> ToolSpec:
        """The tool's part of a model request. Its examples are in the description, which every provider has."""
        examples = describe_examples(self)
        return ToolSpec(
            self.name, f"{self.description}\n\n{examples}" if examples else self.description, self.parameters
        )

    def read(self, tool_input: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments by name.

        A string is the only (required) argument, or a JSON object with all arguments. Raises `InvalidArgumentsError`.
        """
        most = self.max_tool_input
        if most is not None and (length := len(f"{tool_input}")) > most:
            what = f"its arguments have {length:,} characters, and it takes at most {most:,}"
            raise InvalidArgumentsError(f"{self.name} was not called: {what}. Call it with shorter arguments.")
        preferred: Sequence[Mapping[str, Any]] = ()
        # Any: arguments of any type.
        last: Any = tool_input
        if isinstance(tool_input, str):
            *preferred, last = interpret(self, tool_input)
            if last is tool_input:
                wanted = f"a JSON object with {', '.join(self.names)}" if self.names else "a JSON object"
                what = f"its input is not {wanted}. Call it as {self.signature}."
                raise InvalidArgumentsError(f"{self.name} was not called: {what}")
        for arguments in preferred:
            from pydantic_core import ValidationError

            with contextlib.suppress(ValidationError):
                return self._validate(arguments)
        try:
            # Written out, as most tools are simple.
            return dict(self.arguments.validator.validate_python(last)) if self._is_simple else self._validate(last)
        except ValueError as error:
            # Imported here, because an import would cost each step of a run more than a call of the tool.
            from pydantic_core import ValidationError

            # A user's validator may raise any exception.
            if not isinstance(error, ValidationError):
                raise
            details = wrong = error.errors(include_url=False)
            while (last := mend(last, wrong, self.parameters.get("required", ()))) is not None:
                try:
                    return self._validate(last)
                except ValidationError as another:
                    wrong = another.errors(include_url=False)
            errors = [f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: {detail['msg']}" for detail in details]
            more = f"; and {len(errors) - _MAX_ERRORS} more" if len(errors) > _MAX_ERRORS else ""
            what = "; ".join(errors[:_MAX_ERRORS]) + more
            names = dict.fromkeys(str(detail["loc"][0]) for detail in details if detail["loc"])
            message = f"{self.name} was not called: {what}. Call it as {self.signature}."
            raise InvalidArgumentsError(message, tuple(names)) from None

    def with_options(self, **options: Unpack[ToolOptions]) -> Self:
        """Return the tool with these options of `tool`, such as one of another library with `retries=2`.

        Raises `ToolDefinitionError` for an invalid option.
        """
        return check_examples(dataclasses.replace(self, **read_options(self.name, options)))

    def _validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        validator = self.arguments.validator
        return dict(validator.validate_python(arguments) if self._is_simple else validate_json(validator, arguments))


# A tool with any function, for collections of tools. Only `...` erases a parameter list.
AnyTool: TypeAlias = Tool[..., Any]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
@explain_calls("tool", "@tool above def", TOOL_OPTIONS, more_options=ToolOptions.__annotations__)
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a tool from a typed function, `def` or `async def`.

    The tool's name is the function's name, its description is the docstring, and pydantic derives its schema from the
    annotations (`Annotated[str, Field(description=...)]` describes an argument). A parameter annotated `Run` receives
    the run so far. A parameter annotated `CallContext[User]` receives the call's `CallContext`: its id, the run's
    `context` and the remaining seconds.

    If the function raises one of `retry_on`, it is called up to `retries` more times: after `retry_wait` seconds, then
    after `retry_factor` times as long each time (1 to 10, by default 2), up to `retry_longest_wait` (one minute), minus
    a random part, of which the largest is the share `retry_jitter` (0 to 1, by default 0). `retry_on` may also be a
    function from the exception to whether another attempt may help. `timeout` is in seconds, for one attempt; after a
    timeout there are no further attempts. All attempts count as one tool call. An exception becomes an observation,
    unless `on_error` is "raise" or a function from the exception to the observation. The model sees the first
    `max_observation` characters of an observation. If the arguments of a call have more than `max_tool_input`
    characters, as Python writes them, the tool is not called, and the model observes that. Async runs call the
    `async_function`, which has the same parameters, if there is one.

    `examples` are calls that agents show to their models: arguments by name, `[{"city": "Oslo"}]`, or `ToolExample`
    with a question, too. Some agents do not repeat a successful call with the same arguments (`Agent.rules`); declare a
    tool `repeatable` if another call may return something else, as a clock does. In a stored run, a call may have been
    carried out when its process ended: with `in_doubt="tell"` the model observes that, with "retry" the tool is called
    again (`CallContext.id` is the same: pass it on as the key of a request that must not count twice), with "ask" a
    person decides, and with "fail" the run stops.

    Raises `ToolDefinitionError` for an argument without an annotation or a schema, for `*args` and `**kwargs`, for a
    missing description, and for an invalid option.
    """
    if isinstance(function, str):
        raise ToolDefinitionError(
            f"tool was given the string {format_value(function)}; write @tool(name={format_value(function)}), say"
        )
    if is_executor(function):
        raise ToolDefinitionError("tool was given an executor; write executor.as_tool(name, description)")
    subject = name if isinstance(name, str) and name else "a tool"
    validate(
        subject,
        ("name", name, optional(NAME, "that of the function")),
        ("description", description, optional(STRING, "the docstring")),
        error=ToolDefinitionError,
    )
    fields = read_options(subject, options)

    def decorate(undecorated: Callable[..., Any]) -> AnyTool:
        if isinstance(undecorated, Tool):
            raise ToolDefinitionError(f"{undecorated.name} is a tool already; write @tool once")
        # Loads pydantic, which programs without tools do not need.
        from graphexec.tools.arguments import define_tool

        # A lambda cannot have annotations.
        is_typed = getattr(undecorated, "__name__", "") != "<lambda>"
        defined = define_tool(undecorated, name, description, is_typed=is_typed)
        return check_examples(Tool(**defined._asdict(), **fields))

    return decorate if function is None else decorate(function)
