"""The earlier turns that a question comes with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.runs.options import HISTORY_KEY, REMEMBERED_TOKENS, open_history
from graphexec.cli.runs.question import name_inputs
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.result import Ending
from graphexec.memory import History, Memory, MemoryHistory, TokenWindowMemory
from graphexec.messages.observations import format_observation

# Estimated tokens of the earlier turns for a model of a provider, which has space for more than a local one.
_REMEMBERED_BY_SERVER = 16_000


@dataclass(frozen=True, slots=True)
class EarlierTurns:
    """The earlier turns of a chat, and the other inputs of each.

    An executor with a memory loads and saves them itself. For one without, the chat does it, if the agent takes earlier
    messages: a turn is saved when its run has ended, all of it or nothing.
    """

    question_key: str
    memory: Memory | None = None
    kept_here: bool = False
    file: Path | None = None
    given: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def length(self) -> int | None:
        """The number of turns, if it is known. Raises `InputError` for an invalid file."""
        history: History | None = getattr(self.memory, "history", None)
        return None if history is None else len(history.turns())

    def inputs(self, question: str) -> Mapping[str, object]:
        """Return the inputs of a run."""
        asked = {**self.given, self.question_key: question}
        return {**asked, **self.memory.load(asked)} if self.memory is not None and self.kept_here else asked

    def save(self, question: str, ending: Ending) -> None:
        """Add a turn, unless the executor has done so. Raises what the history raises, and then has added nothing."""
        if self.memory is not None and self.kept_here:
            self.memory.save({self.question_key: question}, {"output": format_observation(ending.output)})

    def clear(self) -> None:
        """Forget every turn. Raises `UsageError` for a memory that cannot."""
        if self.memory is None:
            return
        clear = getattr(self.memory, "clear", None)
        if clear is None:
            raise UsageError(
                f"/clear: the executor's memory, {type(self.memory).__name__}, has no method clear; start a new chat"
            )
        clear()


def make_earlier_turns(
    executor: AgentExecutor, file: Path | None, given: Mapping[str, str] | None = None, target: str = "the agent"
) -> EarlierTurns:
    """Return the conversation with this executor, in the `file` if one is named; `given` are its other inputs.

    Raises `UsageError` for an executor that takes other inputs, for a file that it would not use, and for one that
    cannot be written; `InputError` for an invalid file.
    """
    given = given or {}
    agent = executor.agent
    if executor.memory is not None:
        return EarlierTurns(_question_key(executor, given, target), executor.memory, file=file, given=given)
    if agent.function is not None:
        history_key, as_messages = HISTORY_KEY, True
    elif agent.optional_keys:
        history_key, as_messages = agent.optional_keys[0], True
    elif HISTORY_KEY in agent.input_keys:
        history_key, as_messages = HISTORY_KEY, False
    else:
        if file is not None:
            raise UsageError(
                f"--memory: the {agent.kind} agent takes no earlier messages; leave it out, or choose another agent"
            )
        return EarlierTurns(_question_key(executor, given, target), given=given)
    # Here, because the help needs no models.
    from graphexec.models.provider_names import LOCAL

    key = _question_key(executor, {**given, history_key: ""}, target)
    history = MemoryHistory() if file is None else open_history(file)
    room = REMEMBERED_TOKENS if getattr(agent.model, "provider", "") == LOCAL else _REMEMBERED_BY_SERVER
    memory = TokenWindowMemory(room, history=history, key=history_key, input_key=key, as_messages=as_messages)
    return EarlierTurns(key, memory, kept_here=True, file=file, given=given)


def _question_key(executor: AgentExecutor, given: Mapping[str, str], target: str) -> str:
    [key] = [key for key in name_inputs(executor, "", given, target) if key not in given]
    return key
