"""The options of a tool: their types, their validation, and the fields of a tool that they set; examples of its use."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, final, get_args

from graphexec._arguments import FACTOR, FLAG, SECONDS, SHARE, TIMEOUT, Constraint, optional, validate, whole
from graphexec._mistakes import join_faults, unknown_options
from graphexec._mistakes.remedies import TOOL_OPTIONS
from graphexec.errors import GraphexecError, Portable, ToolDefinitionError, described, format_value
from graphexec.kernel.effects import InDoubt
from graphexec.runtime.retry import RetryPolicy, is_error_test, to_predicate

if TYPE_CHECKING:
    from graphexec.tools.tool import AnyTool

ToolT = TypeVar("ToolT", bound="AnyTool")

# Decides if an exception in a tool becomes an observation, which a function may write, or ends the run.
ErrorPolicy: TypeAlias = Literal["observe", "raise"] | Callable[[Exception], str]


@dataclass(frozen=True, slots=True)
class ToolExample:
    """A call of a tool: its `arguments` as JSON data, and optionally a `question` that the call helps to answer.

    `observation` is what the tool returned, as text, and `answer` is the answer to the question. Structured agents show
    all of it as a worked example, and invent what is missing; other agents show the arguments.
    """

    arguments: Mapping[str, Any]
    question: str | None = None
    observation: str | None = None
    answer: str | None = None


class ToolOptions(TypedDict, total=False):
    """The options of `tool`, by name."""

    return_direct: bool
    timeout: float | None
    on_error: ErrorPolicy | None
    retries: int
    retry_on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
    retry_wait: float
    retry_factor: float
    retry_longest_wait: float
    retry_jitter: float
    max_observation: int | None
    max_tool_input: int | None
    async_function: Callable[..., Any] | None
    examples: Sequence[ToolExample | Mapping[str, Any]]
    repeatable: bool
    in_doubt: InDoubt


@final
class ToolRaisedError(Portable, Exception):
    """A tool raised `error`. The wrapper separates errors of the tool from errors of the code that calls it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)


@final
class ReportedError(Portable, Exception):
    """A tool of another library reports an error, for which it has an `observation` of its own."""

    def __init__(self, observation: object) -> None:
        self.observation = observation
        super().__init__(observation)


POLICY = Constraint(
    "'observe', 'raise', or a function (def) from the exception to a string",
    lambda value: value in ("observe", "raise") or (callable(value) and not inspect.iscoroutinefunction(value)),
)
ASYNC_FUNCTION = Constraint("a function (async def)", inspect.iscoroutinefunction)
LENGTH = whole(1, "a whole number of characters, 1 or more")
# Of the options that are fields of a tool.
CONSTRAINTS: Mapping[str, Constraint] = {
    "return_direct": FLAG,
    "timeout": optional(TIMEOUT),
    "on_error": optional(POLICY, "the executor's"),
    "max_observation": optional(LENGTH, "the executor's"),
    "max_tool_input": optional(LENGTH, "the executor's"),
    "async_function": optional(ASYNC_FUNCTION, "the function, in a thread"),
    "repeatable": FLAG,
    "in_doubt": Constraint(f"one of {', '.join(get_args(InDoubt))}", lambda value: value in get_args(InDoubt)),
}

# Characters: more than any model writes, few enough that reading them takes seconds at worst.
MAX_TOOL_INPUT = 1_000_000

# Seconds. The waits double up to one minute; a longer wait rarely helps.
LONGEST_WAIT = 60.0


# The options of retries.
_RETRY: Mapping[str, Constraint] = {
    "retry_on": Constraint(
        "a class of Exception, a tuple of them, or a function (def) from the exception to True or False",
        lambda value: is_error_test((value,) if isinstance(value, type) else value),
    ),
    "retry_wait": SECONDS,
    "retry_factor": FACTOR,
    "retry_longest_wait": SECONDS,
    "retry_jitter": SHARE,
}


def read_options(owner: str, options: ToolOptions) -> dict[str, Any]:
    """Return the fields of a `Tool` that its options set. Raises `ToolDefinitionError` for an invalid option."""
    # Type checkers find it; other users may misspell one.
    if faults := list(unknown_options(owner, TOOL_OPTIONS, ToolOptions.__annotations__, options)):
        raise ToolDefinitionError(join_faults(faults))
    fields: dict[str, Any] = {**options}
    times, given = fields.pop("retries", 0), {name: fields.pop(name) for name in _RETRY if name in fields}
    validate(
        owner,
        *((key, fields[key], constraint) for key, constraint in CONSTRAINTS.items() if key in fields),
        ("retries", times, whole(0, "a whole number, 0 for none")),
        *((name, given[name], constraint) for name, constraint in _RETRY.items() if name in given),
        error=ToolDefinitionError,
    )
    # The examples are compared with the tool when it is made: `check_examples`.
    if given and not times:
        raise ToolDefinitionError(f"{owner} has {' and '.join(given)} without retries; pass retries=2, say, beside it")
    return fields | ({"retry": _make_retry_policy(times, **given)} if "retries" in options else {})


def _make_retry_policy(
    times: int,
    retry_on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] = Exception,
    retry_wait: float = 0.0,
    retry_factor: float = 2.0,
    retry_longest_wait: float | None = None,
    retry_jitter: float = 0.0,
) -> RetryPolicy | None:
    if not times:
        return None
    may_help = to_predicate((retry_on,) if isinstance(retry_on, type) else retry_on)
    return RetryPolicy(
        attempts=times + 1,
        # A tool may also end with a CancelledError of its own, which no test is made for.
        may_pass=lambda raised: (
            isinstance(raised, ToolRaisedError) and isinstance(raised.error, Exception) and may_help(raised.error)
        ),
        first_wait=retry_wait,
        longest_wait=max(retry_wait, LONGEST_WAIT) if retry_longest_wait is None else retry_longest_wait,
        factor=retry_factor,
        jitter=retry_jitter,
    )


def check_examples(tool: ToolT) -> ToolT:
    """Return the tool with its examples read; a dict stands for the arguments alone.

    Raises `ToolDefinitionError` for other values, for arguments that do not fit the tool, and for texts that are not
    strings.
    """
    # Users without a type checker pass anything.
    given: Any = tool.examples
    if isinstance(given, (str, Mapping, ToolExample)) or not isinstance(given, Iterable):
        raise ToolDefinitionError(
            f"{tool.name} has examples={format_value(tool.examples)}; give a list of arguments, such as "
            f"[{_make_sample(tool.names)}], or of ToolExample"
        )
    several: list[Any] = list(given)  # pyright: ignore[reportUnknownArgumentType]
    if not several:
        return tool
    return dataclasses.replace(
        tool, examples=tuple(_read_example(tool, number, one) for number, one in enumerate(several, 1))
    )


def _read_example(tool: AnyTool, number: int, given: Any) -> ToolExample:
    example = given if isinstance(given, ToolExample) else ToolExample(given)
    subject = f"example {number} of {tool.name}"
    # A string is a valid input of a tool of one argument, but an example names its arguments.
    if not isinstance(example.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolDefinitionError(
            f"{subject} is {format_value(given)}; give its arguments by name, such as {_make_sample(tool.names)}"
        )
    for name in ("question", "observation", "answer"):
        text: object = getattr(example, name)
        if text is not None and not isinstance(text, str):
            raise ToolDefinitionError(f"{subject} has {name}={format_value(text)}; give a string, or leave it out")
    try:
        tool.read(example.arguments)
        json.dumps(dict(example.arguments))
    except TypeError as error:
        raise ToolDefinitionError(f"{subject} has arguments that are not JSON: {error}; write them as JSON") from error
    # The arguments do not fit, or a validator of the user's rejects them with any exception.
    except Exception as error:
        why = str(error) if isinstance(error, GraphexecError | ValueError) else described(error)
        raise ToolDefinitionError(f"{subject} does not fit it: {why}") from error
    return example


def _make_sample(names: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{name}": ...' for name in names) + "}"


def describe_examples(tool: AnyTool) -> str:
    """Return the arguments of a tool's examples as text for a model; empty if it has none."""
    calls = [json.dumps(dict(one.arguments), ensure_ascii=False) for one in tool.examples]
    return f"For example: {', '.join(calls)}" if calls else ""
