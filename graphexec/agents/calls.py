"""The calls of an agent's tools: which tool each calls, and whether a rule forbids it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, final

from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.agents.agent import Agent
from graphexec.agents.images import observation_images
from graphexec.agents.prompt import format_observation
from graphexec.agents.small.known_values import KnownText, fold, may_be_known
from graphexec.agents.small.synthesis import find_strings_and_keys, is_choice
from graphexec.effects import ToolResult
from graphexec.messages.observations import split_observation
from graphexec.tools import AnyTool
from graphexec.tools.calling import Lookup, describe_unknown
from graphexec.tools.tool import InvalidArgumentsError

# The steps of one reply.
Turn: TypeAlias = Sequence[AgentStep]


def last_turns(steps: Sequence[AgentStep], most: int) -> list[Turn]:
    """Return the last turns, at most `most` of them, in order."""
    turns: list[Turn] = []
    end = len(steps)
    while end and len(turns) < most:
        start = end - 1
        message, calls = steps[start].action.message, {steps[start].action.call_id}
        # An equal message with a call id seen before belongs to another reply.
        while message is not None and start:
            before = steps[start - 1].action
            if before.message != message or before.call_id in calls:
                break
            calls.add(before.call_id)
            start -= 1
        turns.append(steps[start:end])
        end = start
    return turns[::-1]


NOT_REPEATED = "\n(This is the result of the same call before; it was not made again.)"

_FAILED = frozenset({"error", "bad_arguments", "unknown_tool"})
# A call that has failed as often is likely to fail again.
_MAX_FAILURES = 2


@final
@dataclass(frozen=True, eq=False)
class CallRules:
    """The agent, the tools by name, and the names of the rules in the machine: the data of nodes that look at calls.

    `lookup` says how the names of tools are compared: `exact`, or without regard to case. `max_tool_input` limits the
    characters of arguments, for tools without a limit of their own. `gates` are the names of the tools that each piece
    gates or limits, by the name of the piece; none for a limit on all.
    """

    agent: Agent
    tools: Mapping[str, AnyTool]
    rules: Collection[str] = ()
    lookup: Lookup = "exact"
    max_tool_input: int | None = None
    gates: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])

    @cached_property
    def _by_name(self) -> Mapping[str, AnyTool]:
        return {self._to_key(name): tool for name, tool in self.tools.items()}

    def _to_key(self, name: str) -> str:
        return name if self.lookup == "exact" else name.casefold()

    @cached_property
    def _dummy_texts(self) -> frozenset[str]:
        """The strings of all examples: a model also gives one tool what it saw in an example of another."""
        return frozenset(map(fold, {*find_strings_and_keys([*self.agent.dummies])} - self._declared))

    @cached_property
    def _declared(self) -> frozenset[str]:
        """The names and values that the tools' schemas list at any depth, which a model does not make up."""
        schemas = [tool.parameters for tool in self.tools.values()]
        return frozenset(find_strings_and_keys(schemas, without=("description", "title", "examples")))

    @cached_property
    def fillable(self) -> tuple[str, ...]:
        """The tools whose arguments may be copied from an example, if a rule forbids that."""
        if "no_dummies" not in self.rules or not self.agent.dummies:
            return ()
        return tuple(name for name, tool in self.tools.items() if _has_free_arguments(tool))

    @cached_property
    def has_repeat_rule(self) -> bool:
        """True if a rule forbids repeated calls of a tool."""
        return "no_repeats" in self.rules or (
            "no_immediate_repeats" in self.rules and not all(tool.repeatable for tool in self.tools.values())
        )

    def _dummies_in(self, value: Any) -> Iterator[Any]:
        """Yield what is a dummy: the value as a whole, or a string or a key in it."""
        import pydantic_core

        if not isinstance(value, str) and value in pydantic_core.to_jsonable_python(self.agent.dummies, fallback=str):
            yield value
        yield from (
            one for one in find_strings_and_keys(value) if fold(one) in self._dummy_texts and one not in self._declared
        )

    def find_tool(self, action: AgentAction) -> AnyTool | None:
        """Return the tool that an action calls; `None` for an unknown one."""
        return self._by_name.get(self._to_key(action.tool))

    def calls(self, action: AgentAction, name: str) -> bool:
        """Return whether an action calls the tool of this name."""
        return self._to_key(action.tool) == self._to_key(name)

    def make_unmade_result(self, action: AgentAction) -> ToolResult | None:
        """Return what a call of an unknown tool, or with invalid arguments, observes; `None` for any other."""
        tool = self.find_tool(action)
        if tool is None:
            return ToolResult(describe_unknown(action.tool, self.tools), "unknown_tool")
        if tool.max_tool_input is None:
            tool = replace(tool, max_tool_input=self.max_tool_input)
        try:
            tool.read(action.tool_input)
        except InvalidArgumentsError as error:
            return ToolResult(str(error), "bad_arguments")
        # A user's validator may raise any exception; the call itself reports it.
        except Exception:  # noqa: BLE001
            return None
        return None

    def make_copied_result(self, run: Run, action: AgentAction) -> ToolResult | None:
        """Return what an action with an argument copied from an example observes; `None` for any other."""
        for name, value in self._copied_arguments(run, action):
            copied = f"{name}={format_observation(value)} is in neither the question nor an observation."
            remedy = "Use values from the question, or give your answer."
            return ToolResult(f"{action.tool} was not called: {copied} {remedy}", "bad_arguments")
        return None

    def make_earlier_result(self, run: Run, action: AgentAction) -> ToolResult | None:
        """Return what an action that repeats an earlier call observes; `None` for a call that may be made."""
        if (step := self.earlier_step(run, action)) is not None:
            tool = self.find_tool(action)
            direct = tool is not None and tool.return_direct
            note = step.excerpt.note.removesuffix(NOT_REPEATED) + NOT_REPEATED
            return ToolResult(step.observation, step.status, direct, replace(step.excerpt, note=note))
        return None

    def copying_tools(self, run: Run, actions: Sequence[AgentAction]) -> frozenset[str]:
        """Return the tools that actions call with an argument copied from an example."""
        copying = [action for action in actions if any(self._copied_arguments(run, action))]
        return frozenset(tool.name for action in copying if (tool := self.find_tool(action)) is not None)

    def _copied_arguments(self, run: Run, action: AgentAction) -> Iterator[tuple[str, Any]]:
        """Yield the arguments, by name, that are copied from an example: no input and no observation has them."""
        tool = self.find_tool(action) if self.fillable else None
        if tool is None or tool.name not in self.fillable:
            return
        properties: Mapping[str, Mapping[str, Any]] = tool.parameters["properties"]
        for name, value in (_validated(tool, action) or {}).items():
            if (
                not is_choice(tool, name)
                # The value that the tool has without the argument.
                and value != properties.get(name, {}).get("default")
                and not all(self._may_know(run, one) for one in self._dummies_in(value))
            ):
                yield name, value

    def _may_know(self, run: Run, value: Any) -> bool:
        """Return whether a model can have a value from the inputs or the observations, also from an image.

        The cost is linear in their length: they are read again for each value. Few values are dummies.
        """
        inputs = [split_observation(one) for one in run.inputs.values()]
        seen = [step for step in run.steps if step.status == "ok" or not _is_echo(step, value)]
        if any(images for _, images in inputs) or any(map(observation_images, seen)):
            return True
        texts = [text for text, _ in inputs]
        if not {*map(fold, self.agent.example_questions)}.isdisjoint(map(fold, texts)):
            return True
        return may_be_known(value, texts, [step.text for step in seen])

    def is_futile(self, run: Run, action: AgentAction) -> bool:
        """Return whether a call is not worth making again.

        It has succeeded before or, under `no_repeats`, failed `_MAX_FAILURES` times.
        """
        if self.earlier_step(run, action) is not None:
            return True
        tool = self.find_tool(action)
        if "no_repeats" not in self.rules or (tool is not None and tool.repeatable):
            return False
        failed = [step for step in run.steps if step.status in _FAILED and self.is_same_call(step.action, action)]
        return len(failed) >= _MAX_FAILURES

    def distinguish(self, steps: Steps) -> Hashable:
        """Return a value that is equal for steps that the rules against repetitions treat alike."""
        if not self.has_repeat_rule:
            return None
        known = steps if "no_repeats" in self.rules else _last_calls(steps)
        calls = [(step.action.tool, json.dumps(step.action.tool_input, default=str)) for step in known]
        failed = Counter(call for call, step in zip(calls, known, strict=True) if step.status != "ok")
        succeeded = frozenset(call for call, step in zip(calls, known, strict=True) if step.status == "ok")
        return succeeded, frozenset((call, min(times, _MAX_FAILURES)) for call, times in failed.items())

    def earlier_step(self, run: Run, action: AgentAction) -> AgentStep | None:
        """Return the step in which the same call succeeded, if it must not be made again.

        The cost is linear in the number of steps with this tool.
        """
        tool = self.find_tool(action) if self.has_repeat_rule else None
        if tool is None or tool.repeatable or _validated(tool, action) is None:
            return None
        known = run.steps if "no_repeats" in self.rules else _last_calls(run.steps)
        return next((step for step in known if step.status == "ok" and self.is_same_call(step.action, action)), None)

    def find_first_equal_calls(self, actions: Sequence[AgentAction]) -> list[int]:
        """Return for each action of a reply the position of the first one that is the same call: it is made once."""
        if not self.has_repeat_rule or len(actions) == 1:
            return [*range(len(actions))]
        first: dict[str | int, int] = {}
        return [first.setdefault(self._call_key(action) or place, place) for place, action in enumerate(actions)]

    def _call_key(self, action: AgentAction) -> str | None:
        """Return a text that is equal for the same calls; `None` for a call that may be repeated."""
        tool = self.find_tool(action)
        if tool is None or tool.repeatable:
            return None
        arguments = _validated(tool, action)
        given = action.tool_input if arguments is None else arguments
        return f"{tool.name} {json.dumps(given, sort_keys=True, default=str)}"

    def is_same_call(self, one: AgentAction, other: AgentAction) -> bool:
        """Return whether two actions call the same tool with the same input, or with the same validated arguments."""
        if self._to_key(one.tool) != self._to_key(other.tool):
            return False
        if one.tool_input == other.tool_input:
            return True
        tool = self.find_tool(one)
        arguments = None if tool is None else _validated(tool, one)
        return tool is not None and arguments is not None and arguments == _validated(tool, other)


# Steps: the cost of a call does not grow with the run. A reply with more calls is not recognized as repeated.
_RECENT = 64


def _last_calls(steps: Steps) -> Sequence[AgentStep]:
    """Return the steps of the last reply that made a call. A step that repeats a result, for example, made none."""
    return next(iter(last_turns([step for step in steps[-_RECENT:] if _was_made(step)], 1)), ())


def _was_made(step: AgentStep) -> bool:
    repeats = step.excerpt.note.endswith(NOT_REPEATED)
    return step.status not in ("bad_arguments", "unknown_tool", "parse_error") and not repeats


def _is_echo(step: AgentStep, value: Any) -> bool:
    """Return whether a step's own action has the value, so that an error names it."""
    return KnownText(f"{format_observation(step.action.tool_input)}\n{step.action.log}").has(value)


def _has_free_arguments(tool: AnyTool) -> bool:
    """Return whether a model can write an argument of its own, and not only choose one."""
    is_open = tool.parameters.get("additionalProperties") is not False
    return is_open or not all(is_choice(tool, name) for name in tool.parameters["properties"])


def _validated(tool: AnyTool, action: AgentAction) -> dict[str, Any] | None:
    """Return the validated arguments as JSON data, with those that have their defaults.

    The result is `None` if the tool refuses them, so that it is not called.
    """
    import pydantic_core

    try:
        arguments = tool.read(action.tool_input)
        jsonable: dict[str, Any] = pydantic_core.to_jsonable_python(arguments, fallback=str)
    # A validator of the user's may raise any exception; the call itself reports it.
    except Exception:  # noqa: BLE001
        return None
    properties: Mapping[str, Mapping[str, Any]] = tool.parameters["properties"]
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {**defaults, **jsonable}
