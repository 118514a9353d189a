"""What a node may ask the world for: an effect is a value, and its reply is typed.

A node that needs the world yields an effect and receives the reply, as httpx's `auth_flow` does:
`reply = yield from ask(CallModel(request))`. Who answers it, and how, is not the node's concern. An effect of your own
is a frozen dataclass, `class Fetch(Effect[Page])`, with a handler for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    final,
)

from graphexec.actions import AgentAction, AgentFinish, Run, StepStatus
from graphexec.errors import NodeError
from graphexec.given import told
from graphexec.limits import Exhausted
from graphexec.messages import ModelReply, ModelRequest

R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")
O = TypeVar("O")  # noqa: E741 - an outcome, throughout the package

Budget: TypeAlias = Literal["model_calls", "tool_calls"]


_NO_TOKENS = (0, 0)


class Effect(Generic[R_co]):
    """A request to the world whose reply is an `R`. Subclasses are frozen dataclasses.

    `budget` names the limit that one such effect is charged to, if any; `tokens` and `cost` are asked of model calls.
    """

    __slots__ = ()
    budget: ClassVar[Budget | None] = None

    def __ask__(self) -> Generator[Self, Any, R_co]:
        """Ask for this effect alone. `ask` is the way to call it."""
        # The reply comes from outside: from a handler, whose word is taken, or from JSON, read by its type.
        reply: R_co = yield self
        return reply

    def tokens(self, reply: Any) -> tuple[int, int]:
        """The prompt and completion tokens that the reply took (an `R`, which a covariant class cannot say)."""
        del reply
        return _NO_TOKENS

    def cost(self, reply: Any) -> float | None:
        """The money that the reply cost, or `None` if nobody knows: then a limit on it cannot be kept."""
        del reply
        return 0.0

    def cut(self, exhausted: Exhausted) -> Any:
        """Return the reply to use when the run's deadline cuts this effect, or `None` if the node must be left."""
        del exhausted
        return None


def _unasked(effect: Effect[Any]) -> NoReturn:
    name = type(effect).__name__
    raise NodeError(f"{name} is an effect and has to be asked for; write reply = yield from ask({name}(...))")


# Users without a type checker write `yield from AskHuman("?")`; to a type checker an effect cannot be iterated over.
setattr(Effect, "__iter__", _unasked)  # noqa: B010 - so that it does not see this


class Askable(Protocol[E_co, R_co]):
    """An effect, seen as what it is and what it replies: this is how both types survive `ask`."""

    def __ask__(self) -> Generator[E_co, Any, R_co]: ...


@final
@dataclass(frozen=True, slots=True)
class All(Generic[E_co]):
    """Several effects at once; the reply is the tuple of their replies, in the order asked."""

    effects: tuple[E_co, ...]


# What a node yields, whatever its replies are.
Request: TypeAlias = Effect[Any] | All[Effect[Any]]

# The return annotation of a node that asks: `Asks[CallModel | CallTool, Outcome]`.
Asks: TypeAlias = Generator[E | All[E], Any, O]


def ask(effect: Askable[E, R]) -> Generator[E, Any, R]:
    """Ask for one effect: `reply = yield from ask(CallModel(request))`.

    What its handler raises ends the run and is not raised here: a fallback belongs into the handler.

    Raises `NodeError` for what is no effect.
    """
    try:
        return effect.__ask__()
    except (AttributeError, TypeError):
        # Users without a type checker pass texts, and classes of effects.
        name = effect.__name__ if isinstance(effect, type) and issubclass(effect, Effect) else "AskHuman"
        raise NodeError(f"ask is given {told(effect)}; give an effect: yield from ask({name}(...))") from None


def ask_all(effects: Sequence[Askable[E, R]]) -> Generator[All[E], Any, tuple[R, ...]]:
    """Ask for several effects at once; the replies come in the order asked. Asking for none answers at once."""
    if not effects:
        return ()
    # An Askable[E, R] is an E: `__ask__` yields the effect itself.
    batch: All[Any] = All(tuple(effects))
    replies: tuple[R, ...] = yield batch
    return replies


@dataclass(frozen=True, slots=True)
class CallModel(Effect[ModelReply]):
    """Ask the model to continue a conversation or a text."""

    budget: ClassVar[Budget | None] = "model_calls"
    request: ModelRequest

    def tokens(self, reply: ModelReply) -> tuple[int, int]:
        """The tokens that the provider counted."""
        return reply.usage.prompt_tokens, reply.usage.completion_tokens

    def cost(self, reply: ModelReply) -> float | None:
        """What `priced` models say that it cost."""
        return reply.cost


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The `ParseError` that a callable agent raised, as data."""

    text: str
    observation: str | None = None
    llm_output: str = ""
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """What a callable agent decided, or that it could not read what it was told."""

    decision: AgentFinish | tuple[AgentAction, ...] | Unreadable


@dataclass(frozen=True, slots=True)
class CallAgent(Effect[Decided]):
    """Ask a callable agent for its next decision; it counts as a model call."""

    budget: ClassVar[Budget | None] = "model_calls"
    run: Run


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call: the observation, and how it went (see `AgentStep.status`).

    `return_direct` says that the observation is to be the run's answer: a successful call of a tool that is so. `told`
    is what the model is told instead of the observation, where that is too long for it.
    """

    # Whatever the tool returned.
    observation: Any
    status: StepStatus = "ok"
    return_direct: bool = False
    told: str | None = None


@dataclass(frozen=True, slots=True)
class CallTool(Effect[ToolResult]):
    """Call the tool `name`. An unknown name is answered, and charged, like any other.

    `run` is the run so far, for a tool that asks for it; it does not say which call this is.
    """

    budget: ClassVar[Budget | None] = "tool_calls"
    name: str
    # Text for a tool of one argument, or the arguments by name.
    tool_input: str | Mapping[str, Any]
    run: Run | None = field(default=None, compare=False, repr=False)

    def cut(self, exhausted: Exhausted) -> ToolResult:
        """Say in the observation that the deadline cut the call: its siblings keep their results."""
        return ToolResult(f"{self.name} was cut off: {exhausted}.", "cut")


@dataclass(frozen=True, slots=True)
class AskHuman(Effect[str]):
    """Ask a person, who answers with text."""

    question: str


@dataclass(frozen=True, slots=True)
class Perform(Effect[Any]):
    """Run an opaque node's function on its value; the reply is the node's outcome."""

    node: str
    function: Callable[[Any], Any]
    value: object
