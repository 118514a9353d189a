"""Agents of LangChain, as they are: its runnables.

Nothing here imports LangChain: its classes are recognized by their attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from graphexec._mistakes import explain_calls
from graphexec.actions import AgentStep
from graphexec.agents import Agent
from graphexec.agents.agent import deciding_agent, reject_executor
from graphexec.effects import CallAgent, Decided, Unreadable
from graphexec.errors import InputError, ParseError, format_value
from graphexec.executor.handlers import check_decision
from graphexec.integrations.langchain.conversion import convert_decision, convert_error
from graphexec.integrations.langchain.originals import restore_original
from graphexec.kernel.effects import CallContext
from graphexec.messages.images import dump_observation, restore_images
from graphexec.messages.observations import format_observation
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO


class Runnable(Protocol):
    """An object with `invoke`, such as a LangChain runnable, that returns the agent's decision.

    Its argument is the run's inputs with `intermediate_steps`: pairs of action and observation. It may have `ainvoke`,
    too, and a parameter `config`.
    """

    def invoke(self, inputs: dict[str, Any], /) -> Any:
        """Return an action, a list of actions or a finish: of our classes, or with the same attributes."""


# LangChain's `RunnableConfig`: `callbacks`, `tags`, `metadata`, `configurable` and others, by name.
Config: TypeAlias = Mapping[str, Any]

# A config for every call, or a function that makes it from the call.
ConfigLike: TypeAlias = Config | Callable[[CallContext[Any]], Config]

# Any: an object of a library that is not a dependency, here and below.
Method: TypeAlias = Callable[[dict[str, Any], Config], Any]


@explain_calls("runnable_agent", "runnable_agent(runnable)", {}, named_option="config")
def runnable_agent(runnable: Runnable, *, config: ConfigLike | None = None) -> Agent:
    """Make an agent of a runnable of LangChain; it decides as it does there.

    A runnable receives the inputs with `intermediate_steps`. The decisions are of LangChain's classes or of ours, and
    the next steps have the classes that were decided, also in a run that is resumed from JSON. Async runs await
    `ainvoke`. `config` is LangChain's config for each call (`callbacks`, `tags`, `configurable`), or a function that
    makes it from the call's `CallContext`; the ids of the run and of the call are added to its `metadata`.

    Each call counts as a model call. An empty list is a parse error; any other value raises `AgentError`. If a run must
    stop and asks for a final answer, the input `conclude` is `True`. Raises `InputError` for another object, and for an
    invalid config.
    """
    reject_executor(runnable)
    given: Any = runnable
    if isinstance(given, type) or not (hasattr(given, "invoke") or hasattr(given, "ainvoke")):
        remedy = "give an object with invoke, such as agent.runnable of an agent of LangChain"
        raise InputError(f"the runnable is {format_value(given)}; {remedy}")
    if config is not None and not callable(config):
        _require_config(config)
    return deciding_agent(_make_handler(given, config), kind="runnable")


def _configured(runnable: Any, name: str) -> Method | None:
    """Return a method of a runnable as a function of the inputs and the config; `None` if it has none."""
    method: Any = getattr(runnable, name, None)
    if method is None:
        return None
    takes_config = _takes_config(method)
    return lambda inputs, config: method(inputs, config=config) if takes_config else method(inputs)


def _takes_config(method: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(method).parameters
    # Methods that are written in C may have no signature.
    except (TypeError, ValueError):
        return False
    return "config" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _make_handler(runnable: Any, config: ConfigLike | None) -> Handler:
    """Return a handler that answers `CallAgent` with a runnable.

    Sync runs use `invoke`, async runs `ainvoke`, or the one of them that it has: what blocks runs in a thread in async
    runs. Raises `AgentError` for an invalid decision.
    """
    name = type(runnable).__name__
    invoke, ainvoke = _configured(runnable, "invoke"), _configured(runnable, "ainvoke")

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        run, own = effect.run, _make_config(config, call)
        inputs = {**run.inputs, "intermediate_steps": [*map(_pair, run.steps)]}
        try:
            if ainvoke is not None and (not io.blocking or invoke is None):
                decision = await io.call_async(ainvoke, inputs, own)
            else:
                assert invoke is not None, "a runnable has invoke or ainvoke"
                decision = await io.call(invoke, inputs, own)
        except ValueError as error:
            unreadable = error if isinstance(error, ParseError) else convert_error(error)
            if unreadable is None:
                raise
            return Decided(Unreadable(str(unreadable), unreadable.observation, unreadable.llm_output, unreadable.prose))
        return check_decision(runnable, convert_decision(name, decision))

    return Handler(answer)


def _pair(step: AgentStep) -> tuple[Any, Any]:
    """Return a step with the action in the class that was decided.

    An observation is a string or JSON data, as in a run that was resumed: LangChain writes any other object as its
    `str`. An observation that is too long for the model is cut.
    """
    from pydantic_core import to_jsonable_python

    # A snapshot stores data that look like an image within another object; a runnable gets them as they are.
    whole = step.text == format_observation(step.observation)
    observation = to_jsonable_python(restore_images(dump_observation(step.observation))) if whole else step.text
    original = step.action.original
    if original is None:
        return step.action, observation
    if original.value is None:
        original.value = restore_original(original.data)
    return original.value, observation


def _make_config(config: ConfigLike | None, call: CallContext[Any]) -> dict[str, Any]:
    """Return the config of a call: the user's, and the ids of the run and of the call in its metadata.

    Raises `InputError` if the function that makes the config returns anything else.
    """
    given = _require_config(config(call) if callable(config) else config or {})
    ids = {"graphexec_run_id": call.run_id, "graphexec_call_id": str(call.id)}
    return {**given, "metadata": {**ids, **(given.get("metadata") or {})}}


def _require_config(config: Any) -> Config:
    if not isinstance(config, Mapping):
        raise InputError(
            f"the config is {format_value(config)}; give a dict such as {{'callbacks': [...], 'tags': [...]}}, or a "
            "function that returns one from the call's CallContext"
        )
    made: Config = config  # pyright: ignore[reportUnknownVariableType] - its user wrote it
    return made
