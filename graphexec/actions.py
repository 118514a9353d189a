"""The decisions of an agent, and their results."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, final, overload

from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import AS_TEXT, fill_slots
from graphexec.kernel.meters import Exhausted
from graphexec.messages import AssistantMessage
from graphexec.messages.observations import WHOLE, Excerpt, Observation, format_observation
from graphexec.messages.stored import Original, ReturnValues, Value

# A function that needs pydantic-core imports it, because `import graphexec` should not.
if TYPE_CHECKING:
    from pydantic_core import core_schema

_V = TypeVar("_V")

# A tool's input: a string for a tool of one argument, or the arguments by name.
ToolInput: TypeAlias = str | dict[str, Any]
# Its usual classes: to look one up is cheaper than `isinstance`, which each step would pay for.
_INPUTS = frozenset[type]({str, dict})


@fill_slots
@dataclass(frozen=True, slots=True)
class AgentAction:
    """A decision to call the tool named `tool` with `tool_input`. Raises `InputError` if either has an invalid type.

    `log` is the text that led to it. A native tool call also has its `call_id`, and the `message` that contains it.
    `original` is the action in the classes of another library whose agent decided it.
    `unread` is what follows in the reply, such as an observation that the model invented.
    """

    tool: str
    tool_input: ToolInput
    log: str = ""
    call_id: str | None = None
    message: AssistantMessage | None = None
    original: Original | None = field(default=None, compare=False, repr=False)
    unread: str = ""

    def __post_init__(self) -> None:
        # Users' agents may pass a tool instead of its name, or LangChain's positional inputs.
        if type(self.tool) is not str and not isinstance(self.tool, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"AgentAction: tool={self.tool!r} is invalid; pass the tool's name, a string")
        if type(self.tool_input) not in _INPUTS and not isinstance(self.tool_input, (str, dict)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"AgentAction: tool_input={self.tool_input!r} is invalid; pass a string, or a dict of arguments by name"
            )


StepStatus: TypeAlias = Literal[
    "ok", "error", "bad_arguments", "unknown_tool", "timed_out", "cut", "parse_error", "rejected"
]


@fill_slots
@dataclass(frozen=True, slots=True)
class AgentStep:
    """An action and its observation. Unpacks as the pair `(action, observation)`.

    The model sees an `excerpt` of the observation as its `text`. `status` is `ok`, `error` (the tool raised),
    `bad_arguments` (it was not called), `unknown_tool`, `timed_out` (the tool's own timeout), `cut` (the run's
    deadline), `parse_error` (there was no action to run) or `rejected` (a person or a node did not allow the call).
    `error` is the class of the exception that the tool raised.
    """

    action: AgentAction
    observation: Observation = field(metadata=AS_TEXT)
    status: StepStatus = "ok"
    excerpt: Excerpt = WHOLE
    # With its module unless it is a builtin: "ValueError", "my_tools.PaymentError".
    error: str | None = None

    @property
    def text(self) -> str:
        """The observation as the model sees it."""
        observation, excerpt = self.observation, self.excerpt
        return format_observation(observation) if excerpt is WHOLE else excerpt.of(observation)

    def __iter__(self) -> Iterator[Any]:
        yield self.action
        yield self.observation


# Held while steps shared by several runs are extended.
extending = threading.RLock()

# The number of steps shown in full: asyncio computes the `repr` of a task's result, however long it is.
_SHOWN = 5


@final
class _SharedSteps(list[AgentStep]):
    """The steps that sequences share, with what was derived from them."""

    __slots__ = ("memo",)

    def __init__(self, steps: Iterable[AgentStep]) -> None:
        super().__init__(steps)
        # Created when something is derived, to keep waiting runs small.
        self.memo: dict[Any, Any] | None = None

    def __reduce__(self) -> tuple[type[_SharedSteps], tuple[list[AgentStep]]]:
        # What was derived can be derived again.
        return _SharedSteps, (list(self),)


@final
class Steps(Sequence[AgentStep]):
    """The steps of a run so far: an immutable, thread-safe sequence whose extensions share a common list.

    `extended` copies only the new steps if the longest sequence is extended, as a run does; a shorter one is copied.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, steps: Iterable[AgentStep] = ()) -> None:
        self._shared = _SharedSteps(steps)
        self._length = len(self._shared)

    @property
    def memo(self) -> dict[Any, Any]:
        """What was derived from these steps, by the function that derived it, and is shared with their extensions.

        A longer or a shorter sequence may have derived it.
        """
        # All runs begin with the same empty sequence, which must not keep what is theirs.
        if not self._length:
            return {}
        shared = self._shared
        if shared.memo is None:
            # Two threads may create it at once; what one of them derives is then derived again.
            shared.memo = {}
        return shared.memo

    def derive(self, key: Hashable, extend: Callable[[_V, Sequence[AgentStep]], _V], *, nothing: _V) -> _V:
        """Return what `extend` makes of `nothing` and these steps. In a run it is called once with each step.

        The `key` names the function, which adds further steps to what was made of the steps before them.
        """
        memo = self.memo
        found: tuple[int, _V] = memo.get(key, (0, nothing))
        known, value = found
        if known > self._length:
            # A longer sequence has asked before.
            return extend(nothing, self)
        if known < self._length:
            value = extend(value, self[known:])
            memo[key] = self._length, value
        return value

    def extended(self, steps: Sequence[AgentStep]) -> Steps:
        """Return these steps followed by the new ones."""
        longer = Steps.__new__(Steps)
        with extending:
            # The empty sequence is shared by every run, so it is never extended in place.
            latest = 0 < self._length == len(self._shared)
            shared = self._shared if latest else _SharedSteps(self._shared[: self._length])
            shared += steps
            longer._shared = shared
            longer._length = len(shared)
        return longer

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> AgentStep: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AgentStep, ...]: ...
    def __getitem__(self, index: int | slice) -> AgentStep | tuple[AgentStep, ...]:
        if isinstance(index, slice):
            return tuple(map(self._shared.__getitem__, range(self._length)[index]))
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"there is no step {index}; the run has {self._length}")
        return self._shared[position]

    def __iter__(self) -> Iterator[AgentStep]:
        return iter(self._shared[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        if self._length <= _SHOWN:
            return f"Steps({list(self)!r})"
        return f"<{self._length} steps, the last: {self[-1]!r}>"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> core_schema.CoreSchema:
        """Validate from, and dump as, a list of steps. Pydantic does not export the type of `handler`."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.list_schema(handler.generate_schema(AgentStep)),
            serialization=core_schema.plain_serializer_function_ser_schema(
                list, return_schema=core_schema.list_schema(handler.generate_schema(AgentStep))
            ),
        )


NO_STEPS = Steps()


@final
@dataclass(frozen=True, slots=True)
class Cleared:
    """A step whose result the model is no longer shown, but the `text`; and with `inputs`, no arguments either."""

    step: int
    text: str
    inputs: bool = False

    def of(self, step: AgentStep) -> AgentStep:
        """Return the step as it is shown."""
        action = dataclasses.replace(step.action, tool_input={}) if self.inputs else step.action
        return dataclasses.replace(step, action=action, observation=self.text, excerpt=WHOLE)


@final
@dataclass(frozen=True, slots=True)
class Aside:
    """Data beside a run's record: changes to what the model is shown, and the state of pieces.

    `notes` are texts by the name of their piece; each request has them. `tools` are the names of the tools on offer
    (`None`: all). The first `hidden` steps are not shown; the `summary`, if it is not empty, stands in their place.
    The results of those in `cleared` are not shown. `state` has values by the name of their piece. Raises `InputError`
    for a negative `hidden`.
    """

    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: tuple[str, ...] | None = None
    hidden: int = 0
    summary: str = ""
    state: Mapping[str, Value] = field(default_factory=dict[str, Any])
    cleared: tuple[Cleared, ...] = ()

    def __post_init__(self) -> None:
        if self.hidden < 0:
            raise InputError(f"Aside: hidden={self.hidden} is invalid; pass the number of first steps to hide")


class AsideChanges(TypedDict, total=False):
    """The fields of an `Aside` to replace."""

    notes: Mapping[str, str]
    tools: tuple[str, ...] | None
    hidden: int
    summary: str
    state: Mapping[str, Value]
    cleared: tuple[Cleared, ...]


NO_ASIDE = Aside()


@fill_slots
@dataclass(frozen=True, slots=True)
class Run:
    """The state of a run: the inputs it was started with, and its steps so far, which are its record.

    `aside` changes what the model is shown of them.
    """

    inputs: Mapping[str, Value]
    steps: Steps = field(default=NO_STEPS)
    aside: Aside = field(default=NO_ASIDE)

    def __repr__(self) -> str:
        aside = "" if self.aside == NO_ASIDE else f", aside={self.aside!r}"
        return f"Run(inputs={self.inputs!r}, steps={self.steps!r}{aside})"

    def with_steps(self, steps: Sequence[AgentStep]) -> Run:
        """Return the run with these steps added."""
        return Run(self.inputs, self.steps.extended(steps), self.aside)

    def with_aside(self, **changes: Unpack[AsideChanges]) -> Run:
        """Return the run with these fields of its aside replaced; the record stays as it is."""
        return Run(self.inputs, self.steps, dataclasses.replace(self.aside, **changes))


def run_of(value: object) -> Run | None:
    """Return the run in the `run` attribute of a node's value, or `None`: a user's value may have none."""
    run = getattr(value, "run", None)
    return run if isinstance(run, Run) else None


def steps_of(value: object) -> Steps:
    """Return the steps of the run in a value's `run` attribute, or no steps."""
    run = run_of(value)
    return NO_STEPS if run is None else run.steps


# For a finish that an agent has just parsed, which belongs to no run yet.
NO_RUN = Run({})


@final
@dataclass(frozen=True, slots=True)
class AgentFinish:
    """The agent's answer: `return_values` (the answer under `output`), the `log` that led to it, and the `run`.

    `unread` is as in `AgentAction`.
    """

    return_values: ReturnValues
    log: str = ""
    run: Run = field(default=NO_RUN)
    return_direct: bool = False
    unread: str = ""

    def __post_init__(self) -> None:
        # Users without a type checker pass the answer alone.
        if not isinstance(self.return_values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"AgentFinish: return_values={self.return_values!r} is invalid; write AgentFinish({{'output': ...}})"
            )

    @property
    def steps(self) -> Steps:
        """The steps of the run."""
        return self.run.steps

    @property
    def output(self) -> Any:
        """The answer itself: the value under `output`, or the only value. Raises `KeyError` if there is neither."""
        values = self.return_values
        return values["output"] if "output" in values or len(values) != 1 else next(iter(values.values()))

    @property
    def answer(self) -> Any:
        """The answer itself, or all values by name if there are several and none is `output`."""
        values = self.return_values
        return self.output if "output" in values or len(values) == 1 else dict(values)


# What the reply of a model is parsed to.
Decision: TypeAlias = AgentFinish | tuple[AgentAction, ...]


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which a node stopped a run: `by` is the name of the node or its piece, `why` is for people."""

    by: str
    why: str

    @property
    def reason(self) -> str:
        """The `reason` of the result."""
        return "refused"

    def __str__(self) -> str:
        return f"refused by {self.by}: {self.why}"


# Why a run was stopped: a limit is used up, or a node has refused to go on. A cause has a `reason`, the code that
# results and records have, and its string is for people; records and pages know it by the names of its fields.
Cause: TypeAlias = Exhausted | Refusal


@final
@dataclass(frozen=True, slots=True)
class StoppedResponse:
    """The end of a run that the `cause` has stopped, and the `run`.

    If `generated`, `output` is the model's final answer.
    """

    output: str
    cause: Cause
    run: Run = field(default=NO_RUN)
    generated: bool = False

    @property
    def steps(self) -> Steps:
        """The steps of the run."""
        return self.run.steps

    @property
    def reason(self) -> str:
        """The reason for people: the cause, a refusal or a limit with its value and the value reached.

        It also says if no reply could be read.
        """
        count = len(self.steps)
        reason = f"Stopped after {count} {'step' if count == 1 else 'steps'}: {self.cause}."
        if not self.steps or any(step.status != "parse_error" for step in self.steps):
            return reason
        return f"{reason} No reply could be read; the last observation was {format_value(self.steps[-1].observation)}."


def reason_of(ending: AgentFinish | StoppedResponse) -> str:
    """Return the reason of an ending: `finished`, `return_direct`, `refused`, or the limit that stopped it."""
    match ending:
        case AgentFinish(return_direct=direct):
            return "return_direct" if direct else "finished"
        case StoppedResponse(cause=cause):
            return cause.reason
