"""Agents of LangChain: runnables, and objects with `plan`; their inputs, and the conversion of their decisions.

Nothing here imports LangChain: its classes are recognized by their attributes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps
from graphexec.errors import AgentError, InputError, ParseError, format_value
from graphexec.kernel.effects import CallContext
from graphexec.messages import AssistantMessage, ToolCall
from graphexec.messages.images import dump_observation, restore_images
from graphexec.messages.observations import format_observation
from graphexec.messages.stored import Original


class Runnable(Protocol):
    """An object with `invoke`, such as a LangChain runnable, that returns the agent's decision.

    Its argument is the run's inputs with `intermediate_steps`: pairs of action and observation. It may have `ainvoke`,
    `stream` and `astream`, too, and a parameter `config`.
    """

    def invoke(self, inputs: dict[str, Any], /) -> Any:
        """Return an action, a list of actions or a finish: of our classes, or with the same attributes."""


class Planner(Protocol):
    """An object with `plan`, such as LangChain's `BaseSingleActionAgent`, that returns the agent's decision.

    It may have `aplan`, and names the inputs that it needs.
    """

    @property
    def input_keys(self) -> list[str]:
        """The names of the inputs that a run needs."""
        ...

    # LangChain passes the steps by position, and the inputs by name.
    def plan(self, intermediate_steps: Any, /, callbacks: Any = None, **inputs: Any) -> Any:
        """Return an action, a list of actions or a finish."""


# LangChain's `RunnableConfig`: `callbacks`, `tags`, `metadata`, `configurable` and others, by name.
Config: TypeAlias = Mapping[str, Any]

# A config for every call, or a function that makes it from the call.
ConfigLike: TypeAlias = Config | Callable[[CallContext[Any]], Config]

# Any: an object of a library that is not a dependency.
Method: TypeAlias = Callable[[dict[str, Any], Config], Any]


@final
@dataclass(frozen=True, slots=True)
class RunnableFunction:
    """A runnable or a planner as the function of an agent. The executor calls its methods, in sync and async runs.

    `invoke` and `stream` block; `ainvoke` and `astream` are awaited. One of `invoke` and `ainvoke` is not `None`; the
    others are `None` if the object lacks them, or is not to stream. Each takes the inputs with `intermediate_steps`,
    and the config.
    """

    runnable: Any
    config: ConfigLike | None = None
    streams: bool = True

    # Two executors with one runnable have the same agent. A comparison of runnables by value may be slow.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunnableFunction) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[int, int, bool]:
        return id(self.runnable), id(self.config), self.streams

    @property
    def name(self) -> str:
        """The name of the runnable's class."""
        return type(self.runnable).__name__

    def __call__(self, steps: Steps, inputs: dict[str, Any]) -> Any:
        """Return the decision, without a run: no call is known to the config."""
        invoke = self.method("invoke")
        if invoke is None:
            raise AgentError(f"the agent {self.name} has only async methods; run it with an executor")
        given: Any = self.config
        config: Config = {} if given is None or callable(given) else given
        return convert_decision(self.name, invoke(self.inputs(Run(inputs, steps)), config))

    def method(self, name: str) -> Method | None:
        """Return the method `invoke`, `ainvoke`, `stream` or `astream` as a function of the inputs and the config."""
        if name.endswith("stream") and not self.streams:
            return None
        if _plans(self.runnable):
            return _planning(getattr(self.runnable, _PLANNED.get(name, ""), None))
        return _configured(getattr(self.runnable, name, None))

    def inputs(self, run: Run) -> dict[str, Any]:
        """Return the inputs of a run with `intermediate_steps`, whose actions have the classes that were decided.

        An observation is a string or JSON data, as in a run that was resumed: LangChain writes any other object as its
        `str`. An observation that is too long for the model is cut.
        """
        return {**run.inputs, "intermediate_steps": [_pair(step) for step in run.steps]}

    def config_of(self, call: CallContext[Any]) -> dict[str, Any]:
        """Return the config of a call: the user's, and the ids of the run and of the call in its metadata.

        Raises `InputError` if the function that makes the config returns anything else.
        """
        given: Any = self.config
        config = _require_config(given(call) if callable(given) else given or {})
        ids = {"graphexec_run_id": call.run_id, "graphexec_call_id": str(call.id)}
        return {**config, "metadata": {**ids, **(config.get("metadata") or {})}}


def _pair(step: AgentStep) -> tuple[Any, Any]:
    from pydantic_core import to_jsonable_python

    action = step.action
    # A snapshot stores data that look like an image within another object; a runnable gets them as they are.
    whole = step.text == format_observation(step.observation)
    observation = to_jsonable_python(restore_images(dump_observation(step.observation))) if whole else step.text
    return action if action.original is None else action.original.value, observation


# The methods of a planner, by those of a runnable.
_PLANNED = {"invoke": "plan", "ainvoke": "aplan"}


def _require_config(config: object) -> Config:
    # Any: the keys and values of a dict that its user wrote.
    checked: Any = config
    if not isinstance(config, Mapping):
        raise InputError(
            f"the config is {format_value(config)}; give a dict such as {{'callbacks': [...], 'tags': [...]}}, or a "
            "function that returns one from the call's CallContext"
        )
    made: Config = checked
    return made


def make_runnable_function(runnable: object, config: ConfigLike | None, *, streams: bool) -> RunnableFunction:
    """Make the function of an agent from a runnable or a planner. Raises `InputError` for an invalid config."""
    if config is not None and not callable(config):
        _require_config(config)
    return RunnableFunction(runnable, config, streams)


def is_runnable(agent: object) -> bool:
    """Return whether an object decides by `invoke` or `plan`, or by their async forms, and not by being called."""
    if isinstance(agent, type):
        return False
    names = [name for name in ("invoke", "ainvoke", "plan", "aplan") if callable(getattr(agent, name, None))]
    # LangChain's older chains can be called, too, with other arguments than an agent function.
    return bool(names) and (not callable(agent) or len(names) > 1)


def input_keys_of(agent: object) -> tuple[str, ...]:
    """Return the inputs that a planner needs; a runnable does not declare its inputs."""
    # Any: an attribute of an object of another library.
    keys: Any = getattr(agent, "input_keys", ()) if _plans(agent) else ()
    names: Any = keys
    return tuple(map(str, names)) if isinstance(keys, (list, tuple)) else ()


def _plans(agent: object) -> bool:
    return not hasattr(agent, "invoke") and not hasattr(agent, "ainvoke")


def _planning(plan: Any) -> Method | None:
    if not callable(plan):
        return None

    def call(inputs: dict[str, Any], config: Config) -> Any:
        named = dict(inputs)
        steps = named.pop("intermediate_steps")
        return plan(steps, callbacks=config.get("callbacks"), **named)

    return call


def _configured(method: Any) -> Method | None:
    if not callable(method):
        return None
    # Any: the method of an object of another library.
    found: Any = method
    takes_config = _takes_config(found)
    return lambda inputs, config: found(inputs, config=config) if takes_config else found(inputs)


def _takes_config(method: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(method).parameters
    # Methods that are written in C may have no signature.
    except (TypeError, ValueError):
        return False
    return "config" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def convert_error(error: ValueError) -> ParseError | None:
    """Return the error of LangChain's output parsers as a `ParseError`; `None` for any other error."""
    # Any: the class of the error is not known here.
    other: Any = error
    if isinstance(error, ParseError) or not hasattr(other, "llm_output"):
        return None
    return ParseError(str(error), observation=getattr(other, "observation", None), llm_output=other.llm_output or "")


def convert_decision(name: str, decision: Any) -> Any:
    """Return a decision of another library in our classes. Raises `AgentError` for a value that is no decision."""
    if isinstance(decision, (list, tuple)):
        several: list[Any] = list(decision)  # pyright: ignore[reportUnknownArgumentType]
        return [convert_decision(name, one) for one in several]
    if isinstance(decision, (AgentAction, AgentFinish)):
        return decision
    if hasattr(decision, "return_values"):
        return AgentFinish(decision.return_values, decision.log)
    if hasattr(decision, "tool_input"):
        return _convert_action(decision)
    raise AgentError(f"the agent {name} returned {format_value(decision)}; {_remedy(decision)}")


def _remedy(decision: Any) -> str:
    """Return what to write instead of a runnable that returned something else than a decision."""
    if hasattr(decision, "tool_calls"):
        return "end it with an output parser: prompt | model | ToolsAgentOutputParser()"
    if isinstance(decision, str) or hasattr(decision, "content"):
        return "end it with an output parser: prompt | model | ReActSingleInputOutputParser()"
    if isinstance(decision, Mapping) and ("messages" in decision or "output" in decision):
        return (
            "it runs a loop of its own, so it is no agent for an executor: call it yourself, or in a tool; or pass the "
            "agent that it runs"
        )
    return "return an AgentAction, a list of them, or an AgentFinish"


# Any: an action of LangChain's classes.
def _convert_action(action: Any) -> AgentAction:
    """Return an action in our class, with the original. A native tool call has its id and the model's message."""
    log: Iterable[Any] = getattr(action, "message_log", None) or ()
    message = next((one for one in reversed(list(log)) if hasattr(one, "content")), None)
    call_id: Any = getattr(action, "tool_call_id", None)
    return AgentAction(
        action.tool,
        action.tool_input,
        action.log,
        call_id if isinstance(call_id, str) else None,
        None if message is None else _convert_message(message),
        original=Original(action),
    )


# Any: a message of LangChain's classes.
def _convert_message(message: Any) -> AssistantMessage:
    calls: Iterable[Any] = getattr(message, "tool_calls", None) or ()
    return AssistantMessage(text_of(message.content), tuple(_convert_call(call) for call in calls))


def _convert_call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(call.get("id") or "", call["name"], json.dumps(call["args"], default=str))


def text_of(content: Any) -> str:
    """Return the text of a message's content in LangChain's form: a string, or a list of strings and blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    blocks: list[Any] = list(content)  # pyright: ignore[reportUnknownArgumentType]
    return "".join(block if isinstance(block, str) else _text_of_block(block) for block in blocks)


def _text_of_block(block: Any) -> str:
    # Other blocks hold reasoning, images and tool calls.
    text: Any = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return text if isinstance(text, str) else ""
