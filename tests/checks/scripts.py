"""Scripts of agents, turn by turn, as plain data that is readable in a failure: `(act unknown('x'), garbage)`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphexec.actions import AgentAction, AgentFinish, Steps
from graphexec.errors import ModelError, ParseError
from graphexec.testing.failures import Readable
from graphexec.testing.scripted import ScriptedError, delay, pause

TurnKind: TypeAlias = Literal["answer", "act", "empty", "garbage", "model error", "exception", "nonsense"]


@dataclass(frozen=True, slots=True, repr=False)
class Call(Readable):
    """One call of a tool, by name and with one argument."""

    tool: str
    argument: object = None
    name: str = "text"

    def __repr__(self) -> str:
        return f"{self.tool}({'' if self.argument is None else repr(self.argument)})"

    @property
    def action(self) -> AgentAction:
        """The call as an agent's decision."""
        return AgentAction(self.tool, {} if self.argument is None else {self.name: self.argument})


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

    @property
    def seconds(self) -> float:
        """The sum of the seconds of its turns."""
        return sum(turn.seconds for turn in self.turns)

    def turn_at(self, steps: Steps) -> tuple[int, ScriptedTurn]:
        """Return the next turn, from the steps alone: the agent keeps no state that runs could share."""
        position = number = 0
        while position < len(steps):
            position += max(1, len(self.turns[min(number, len(self.turns) - 1)].calls))
            number += 1
        return number, self.turns[min(number, len(self.turns) - 1)]

    def agent(self) -> Callable[[Steps, dict[str, Any]], Coroutine[Any, Any, Any]]:
        """Return an agent that follows the script, for async runs: `AgentExecutor(agent=script.agent(), ...)`."""

        async def scripted(steps: Steps, inputs: dict[str, Any]) -> Any:
            del inputs
            number, turn = self.turn_at(steps)
            if turn.seconds:
                await pause(turn.seconds, stubborn=turn.stubborn)
            return turn.decision(number)

        return scripted

    def instant_agent(self) -> Callable[[Steps, dict[str, Any]], Any]:
        """Return an agent that follows the script without delays, for any run."""

        def scripted(steps: Steps, inputs: dict[str, Any]) -> Any:
            del inputs
            number, turn = self.turn_at(steps)
            return turn.decision(number)

        return scripted
