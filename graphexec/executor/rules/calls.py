"""Calls that a rule forbids: copied from an example, or made before."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from pydantic_core import to_jsonable_python

from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.agents import Agent
from graphexec.agents.prompt import format_observation, observation_text
from graphexec.agents.rules import is_choice
from graphexec.effects import ToolResult
from graphexec.executor.loop_guard import last_turns
from graphexec.tools import AnyTool
from graphexec.tools.calling import Lookup

COPIED = (
    "{tool} was not called: {argument}={value} stands in an example, and not in the question. "
    "Use values from the question, or give your answer."
)
NOT_REPEATED = "(This is the result of the same call before; it was not made again.)"


_FAILED = frozenset({"error", "bad_arguments", "unknown_tool"})
# A call that has failed as often is likely to fail again.
HOPELESS = 2


@final
@dataclass(frozen=True, eq=False)
class CallRules:
    """The agent with its rules, and the tools by name: the data of the rules' nodes."""

    agent: Agent
    tools: Mapping[str, AnyTool]
    lookup: Lookup = "exact"

    @cached_property
    def _by_name(self) -> Mapping[str, AnyTool]:
        return self.tools if self.lookup == "exact" else {name.casefold(): one for name, one in self.tools.items()}

    @cached_property
    def _dummy_texts(self) -> frozenset[str]:
        """The strings of all examples: a model also gives one tool what it saw in an example of another."""
        rows = self.agent.dummies.values()
        return frozenset(
            _fold(one) for row in rows for values in row.values() for one in values if isinstance(one, str)
        )

    def _is_dummy(self, value: Any, dummies: Sequence[Any]) -> bool:
        if isinstance(value, str):
            return _fold(value) in self._dummy_texts
        return any(value == to_jsonable_python(dummy, fallback=str) for dummy in dummies)

    def tool_of(self, action: AgentAction) -> AnyTool | None:
        """Return the tool that an action calls; `None` for an unknown one."""
        return self._by_name.get(action.tool if self.lookup == "exact" else action.tool.casefold())

    def result_of(self, run: Run, action: AgentAction) -> ToolResult | None:
        """Return what an action that a rule forbids observes; `None` for an action whose tool may be called."""
        if (argument := self.copied_argument(run, action)) is not None:
            name, value = argument
            text = COPIED.format(tool=action.tool, argument=name, value=format_observation(value))
            return ToolResult(text, "bad_arguments")
        if (step := self.earlier_step(run, action)) is not None:
            tool = self.tool_of(action)
            direct = tool is not None and tool.return_direct
            text = f"{observation_text(step)}\n{NOT_REPEATED}"
            return ToolResult(step.observation, step.status, direct, text)
        return None

    def copied_argument(self, run: Run, action: AgentAction) -> tuple[str, Any] | None:
        """Return an argument, by name, that is copied from an example: it stands in no input and no observation."""
        if "no_dummies" not in self.agent.rules:
            return None
        tool = self.tool_of(action)
        if tool is None or not self.agent.dummies:
            return None
        dummies = self.agent.dummies.get(tool.name, {})
        arguments = _validated(tool, action) or {}
        copied = [
            (name, value)
            for name, value in arguments.items()
            if not is_choice(tool, name) and self._is_dummy(value, dummies.get(name, ()))
        ]
        if not copied:
            return None
        text = _known_text(run)
        return next(((name, value) for name, value in copied if not _stands_in(value, text)), None)

    def is_settled(self, run: Run, action: AgentAction) -> bool:
        """Return whether a call has succeeded before, or has failed twice, so that it is not worth making again."""
        if self.earlier_step(run, action) is not None:
            return True
        if "no_repeats" not in self.agent.rules:
            return False
        failed = [step for step in run.steps if step.action.tool == action.tool and step.status in _FAILED]
        return sum(step.action.tool_input == action.tool_input for step in failed) >= HOPELESS

    def distinguish(self, steps: Steps) -> Hashable:
        """Return a value that is equal for steps that the rules against repetitions treat alike."""
        if not {"no_repeats", "no_immediate_repeats"} & {*self.agent.rules}:
            return None
        known = steps if "no_repeats" in self.agent.rules else last_calls(steps)
        calls = [(step.action.tool, json.dumps(step.action.tool_input, default=str)) for step in known]
        failed = Counter(call for call, step in zip(calls, known, strict=True) if step.status != "ok")
        succeeded = frozenset(call for call, step in zip(calls, known, strict=True) if step.status == "ok")
        return succeeded, frozenset((call, min(times, HOPELESS)) for call, times in failed.items())

    def earlier_step(self, run: Run, action: AgentAction) -> AgentStep | None:
        """Return the first step in which the same call succeeded, if it must not be made again.

        The cost is linear in the number of steps with this tool.
        """
        strict = "no_repeats" in self.agent.rules
        tool = self.tool_of(action) if strict or "no_immediate_repeats" in self.agent.rules else None
        arguments = None if tool is None or tool.repeatable else _validated(tool, action)
        if arguments is None:
            return None
        for step in run.steps if strict else last_calls(run.steps):
            if step.status == "ok" and self.tool_of(step.action) is tool:
                assert tool is not None, "it has arguments"
                if step.action.tool_input == action.tool_input or _validated(tool, step.action) == arguments:
                    return step
        return None


def last_calls(steps: Steps) -> Sequence[AgentStep]:
    """Return the steps of the last reply that called a tool; those that called none are skipped."""
    called = [step for step in steps[-_RECENT:] if step.status not in ("parse_error", "bad_arguments")]
    return next(iter(last_turns(called, 1)), ())


# Steps. A reply with more calls is not recognized as repeated.
_RECENT = 64


def _validated(tool: AnyTool, action: AgentAction) -> dict[str, Any] | None:
    """Return the validated arguments as JSON data; `None` if the tool refuses them, so that it is not called."""
    try:
        arguments = tool.read(action.tool_input)
        jsonable: dict[str, Any] = to_jsonable_python(arguments, fallback=str)
    # A validator of the user's may raise any exception; the call itself reports it.
    except Exception:  # noqa: BLE001
        return None
    return jsonable


# Digits within a word, such as K-52, are not a number.
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)*(?![\w])")


# Where numbers are written in words, or a part is meant, any number may follow from the text.
_NUMBER_WORD = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen|twenty|thirty|forty|fifty|sixty|seventy"
    r"|eighty|ninety|hundred|thousand|million|dozen|half|quarter|third|double|twice)\b"
)


def _known_text(run: Run) -> str:
    """Return the inputs and the observations as one text in lower case: what a model can know arguments from."""
    known = [format_observation(value) for value in run.inputs.values()]
    known += [observation_text(step) for step in run.steps if step.status != "bad_arguments"]
    return _fold("\n".join(known))


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _stands_in(value: Any, text: str) -> bool:
    """Return whether a text has the value in it; of a list or an object, any part."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return _fold(value) in text
    if isinstance(value, (int, float)):
        return any(number == value for number in _numbers(text)) or _NUMBER_WORD.search(text) is not None
    # Any: JSON data that is neither is a list or an object.
    many: Any = value
    parts: Any = many.values() if isinstance(value, dict) else many
    return not many or any(_stands_in(part, text) for part in parts)


def _numbers(text: str) -> list[float]:
    found = [one.replace(",", "") for one in _NUMBER.findall(text)]
    return [float(one) for one in found if one.count(".") <= 1]
