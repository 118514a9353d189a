"""What an agent decides, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final, overload

from pydantic_core import core_schema

from graphexec.errors import InputError
from graphexec.kernel.meters import Exhausted
from graphexec.messages import AssistantMessage

# A tool's input: text for a tool of one argument, or the arguments by name.
ToolInput: TypeAlias = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentAction:
    """A decision to call `tool`, by its name, with `tool_input`. Raises `InputError` for invalid types of either.

    `log` is the text that led to it. A native tool call also has its `call_id`, and the `message` that it was part of.
    """

    tool: str
    tool_input: ToolInput
    log: str = ""
    call_id: str | None = None
    message: AssistantMessage | None = None

    def __post_init__(self) -> None:
        # Agents of the users' own pass tools instead of their names, and LangChain's positional inputs.
        if not isinstance(self.tool, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"AgentAction was given the tool {self.tool!r}; write its name, as a text")
        if not isinstance(self.tool_input, (str, dict)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"AgentAction was given the input {self.tool_input!r}; write a text, or a dict of arguments by name"
            )


StepStatus: TypeAlias = Literal["ok", "error", "bad_arguments", "unknown_tool", "timed_out", "cut", "parse_error"]


@dataclass(frozen=True, slots=True)
class AgentStep:
    """An action and its observation. Unpacks as the pair `(action, observation)`.

    `told` is a shorter observation for the model, where it needs one. `status` is `ok`; `error`, the tool raised;
    `bad_arguments`, it was not called; `unknown_tool`; `timed_out`, the tool's own timeout; `cut`, the run's deadline;
    `parse_error`, there was no action to run. `error` is the class of the exception that the tool failed with.
    """

    action: AgentAction
    # Whatever the tool returned.
    observation: Any
    status: StepStatus = "ok"
    told: str | None = None
    # With its module, unless it is a builtin: "ValueError", "my_tools.PaymentError".
    error: str | None = None

    def __iter__(self) -> Iterator[Any]:
        yield self.action
        yield self.observation


# Held while steps that runs share are extended.
extending = threading.Lock()

# How many steps are shown in full; asyncio makes the `repr` of what a task returns, however long it is.
_SHOWN = 5


@final
class Steps(Sequence[AgentStep]):
    """The steps of a run so far: an immutable, thread-safe sequence whose extensions share a common list.

    `extended` costs only the new steps where the longest sequence is extended, as a run does; an older one is copied.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, steps: Iterable[AgentStep] = ()) -> None:
        self._shared = list(steps)
        self._length = len(self._shared)

    def extended(self, steps: Sequence[AgentStep]) -> Steps:
        """Return these steps and the new ones behind them."""
        longer = Steps.__new__(Steps)
        with extending:
            # The empty beginning is shared by every run: it is never extended in place.
            latest = 0 < self._length == len(self._shared)
            shared = self._shared if latest else self._shared[: self._length]
            shared.extend(steps)
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
            return tuple(self._shared[position] for position in range(*index.indices(self._length)))
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"step {index} of {self._length}")
        return self._shared[position]

    def __iter__(self) -> Iterator[AgentStep]:
        shared = self._shared
        return (shared[position] for position in range(self._length))

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
        """Validate from, and dump as, a list of steps. `handler` is pydantic's, whose type it does not export."""
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.list_schema(handler.generate_schema(AgentStep)),
            serialization=core_schema.plain_serializer_function_ser_schema(
                list, return_schema=core_schema.list_schema(handler.generate_schema(AgentStep))
            ),
        )


NO_STEPS = Steps()


@dataclass(frozen=True, slots=True)
class Run:
    """What a run knows: the inputs it was started with, and its steps so far."""

    inputs: Mapping[str, Any]
    steps: Steps = field(default=NO_STEPS)

    def observed(self, steps: Sequence[AgentStep]) -> Run:
        """Return the run with these steps done."""
        return Run(self.inputs, self.steps.extended(steps))


def run_of(value: object) -> Run | None:
    """Return the run that a node's value carries under `run`; a value of the user's own may carry none."""
    run = getattr(value, "run", None)
    return run if isinstance(run, Run) else None


def steps_of(value: object) -> Steps:
    """Return the steps of the run that a value carries, or none."""
    run = run_of(value)
    return NO_STEPS if run is None else run.steps


# For a finish that is not of a run yet, as an agent reads it.
NO_RUN = Run({})


@final
@dataclass(frozen=True, slots=True)
class AgentFinish:
    """The agent's answer: `return_values` (the answer under `output`), the `log` that led to it, and the `run`."""

    return_values: Mapping[str, Any]
    log: str = ""
    run: Run = field(default=NO_RUN)
    return_direct: bool = False

    def __post_init__(self) -> None:
        # Users without a type checker write the answer alone.
        if not isinstance(self.return_values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"AgentFinish was given {self.return_values!r}; write AgentFinish({{'output': ...}})")

    @property
    def steps(self) -> Steps:
        """The steps of the run."""
        return self.run.steps

    @property
    def output(self) -> Any:
        """The answer itself: the value under `output`, or the only one. Raises `KeyError` where there is neither."""
        values = self.return_values
        return values["output"] if "output" in values or len(values) != 1 else next(iter(values.values()))

    @property
    def answer(self) -> Any:
        """The answer itself or, where there are several values and none is `output`, all of them by name."""
        values = self.return_values
        return self.output if "output" in values or len(values) == 1 else dict(values)


@final
@dataclass(frozen=True, slots=True)
class StoppedResponse:
    """The end of a stopped run: the limit, and the `run`. `generated`: `output` is the model's last word."""

    output: str
    limit: Exhausted
    run: Run = field(default=NO_RUN)
    generated: bool = False

    @property
    def steps(self) -> Steps:
        """The steps of the run."""
        return self.run.steps

    @property
    def reason(self) -> str:
        """One sentence for people: which limit, its value, and what was reached."""
        count = len(self.steps)
        return f"Stopped after {count} {'step' if count == 1 else 'steps'}: {self.limit}."
