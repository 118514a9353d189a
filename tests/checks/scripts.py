"""Scripts of agents, turn by turn, as plain data that is readable in a failure: `(act unknown('x'), garbage)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphexec.actions import AgentAction, AgentFinish
from graphexec.errors import ModelError, ParseError
from graphexec.testing.failures import Readable
from graphexec.testing.scripted import ScriptedError, delay

TurnKind: TypeAlias = Literal["answer", "act", "empty", "garbage", "model error", "exception", "nonsense"]


@dataclass(frozen=True, slots=True, repr=False)
class Call(Readable):
    """One call of a tool, by name and with one argument, `text`."""

    tool: str
    argument: object = None

    def __repr__(self) -> str:
        return f"{self.tool}({'' if self.argument is None else repr(self.argument)})"

    @property
    def action(self) -> AgentAction:
        """The call as an agent's decision."""
        return AgentAction(self.tool, {} if self.argument is None else {"text": self.argument})


@dataclass(frozen=True, slots=True, repr=False)
class ScriptedTurn(Readable):
    """One turn of an agent, after `seconds` (`math.inf` means never).

    `nonsense` is not a decision; a `stubborn` turn ignores its cancellation.
    """

    kind: TurnKind
    calls: tuple[Call, ...] = ()
    seconds: float = 0.0
    stubborn: bool = False

    def __repr__(self) -> str:
        kind = f"act {', '.join(map(repr, self.calls))}" if self.kind == "act" else self.kind
        return f"{kind}{delay(self.seconds, stubborn=self.stubborn)}"

    def decision(self, number: int) -> object:
        """Return the agent's decision at its turn `number`, or raise its exception."""
        match self.kind:
            case "answer":
                return AgentFinish({"output": f"answer {number}"})
            case "act":
                return [call.action for call in self.calls]
            case "empty":
                return []
            case "nonsense":
                return None
            case "garbage":
                raise ParseError("it cannot be read", observation="unreadable", llm_output="garbage")
            case "model error":
                raise ModelError("the model failed, as scripted")
            case "exception":
                raise ScriptedError("as scripted")


@dataclass(frozen=True, slots=True, repr=False)
class AgentScript(Readable):
    """An agent's turns. The last turn repeats, so each short script is an endless attack."""

    turns: tuple[ScriptedTurn, ...]

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.turns))})"
