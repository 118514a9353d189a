"""Agents of LangChain, as they are: runnables, and objects with `plan`; and executors as runnables.

Nothing here imports LangChain, but for `as_runnable`: its classes are recognized by their attributes.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias, final

from graphexec._arguments import NAME, Constraint, is_executor, validate
from graphexec._mistakes import explain_calls
from graphexec.actions import AgentFinish, AgentStep, Decision
from graphexec.agents import Agent
from graphexec.agents.agent import deciding_agent, reject_executor
from graphexec.effects import CallAgent, Decided, Unreadable
from graphexec.errors import AgentError, InputError, ParseError, format_value
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.handlers import check_decision
from graphexec.integrations.langchain.configs import (
    Config,
    ConfigLike,
    add_outer_config,
    make_config,
    require_config,
    use_config,
)
from graphexec.integrations.langchain.conversion import convert_decision, convert_error, restore_messages, text_of
from graphexec.integrations.langchain.originals import restore_original
from graphexec.kernel.effects import CallContext
from graphexec.kernel.surgery import same
from graphexec.messages import ReplyDelta
from graphexec.messages.observations import dump_observation, format_observation
from graphexec.messages.stored import restore_value
from graphexec.models.bridges.bridging import require
from graphexec.runtime.calls import report, wait_for_capacity, wants_pieces
from graphexec.runtime.handlers import Handler, iterate_unless_cancelled
from graphexec.runtime.io import IO


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


# Any: an object of a library that is not a dependency, here and below.
Method: TypeAlias = Callable[[dict[str, Any], Config], Any]


@explain_calls("runnable_agent", "runnable_agent(runnable, config=...)", {})
def runnable_agent(runnable: Runnable | Planner, *, config: ConfigLike | None = None, stream: bool = True) -> Agent:
    """Make an agent of a runnable of LangChain, or of an object with `plan`; it decides as it does there.

    A runnable receives the inputs with `intermediate_steps`, and an object with `plan` the steps and the inputs. The
    decisions are of LangChain's classes or of ours, and the next steps have the classes that were decided, also in a
    run that is resumed from JSON. Async runs await `astream`, `ainvoke` or `aplan`. A runnable with `stream` is
    streamed, as LangChain does it, and the tokens of its models are reported where a run asks for them; `with_retry()`
    has an effect only without `stream`. `config` is LangChain's config for each call (`callbacks`, `tags`,
    `configurable`), or a function that makes it from the call's `CallContext`; the ids of the run and of the call are
    added to its `metadata`. LangChain's tools get it, too.

    Each call counts as a model call. An empty list is a parse error; any other value raises `AgentError`. If a run must
    stop and asks for a final answer, the input `conclude` is `True`. Raises `InputError` for another object, and for an
    invalid config.
    """
    reject_executor(runnable)
    given: Any = runnable
    plans = not hasattr(given, "invoke") and not hasattr(given, "ainvoke")
    if isinstance(given, type) or (plans and not hasattr(given, "plan") and not hasattr(given, "aplan")):
        raise InputError(f"the runnable is {format_value(given)}; give an object with invoke or plan, of LangChain")
    if config is not None and not callable(config):
        require_config(config)
    # A runnable does not declare its inputs.
    keys: Any = getattr(given, "input_keys", ()) if plans else ()
    if plans:
        methods = {"invoke": getattr(given, "plan", None), "ainvoke": getattr(given, "aplan", None)}
    else:
        names = ("invoke", "ainvoke", "stream", "astream") if stream else ("invoke", "ainvoke")
        methods = {name: getattr(given, name, None) for name in names}
    adapt = _planning if plans else _configured
    forms = {name: adapt(method) for name, method in methods.items() if method is not None}
    agent = deciding_agent(_make_handler(given, forms, config), kind="runnable", input_keys=tuple(map(str, keys)))
    if config is None:
        return agent

    def around(call: CallContext[Any]) -> AbstractContextManager[object]:
        return use_config(make_config(config, call))

    return dataclasses.replace(agent, around_tools=around)


# Any: LangChain is optional, so the class is not known here.
@explain_calls("as_runnable", "as_runnable(executor)", {})
def as_runnable(executor: AgentExecutor[Any], *, name: str = "AgentExecutor") -> Any:
    """Return a runnable of LangChain that runs an executor: `prompt | as_runnable(executor) | parser`.

    It returns what `executor.invoke` returns, and streams what `stream_chunks` yields. Messages of LangChain in the
    inputs are converted. The callbacks, tags and metadata of its config reach LangChain's models, tools and agents in
    the run, also in threads and tasks, as children of the runnable's own run; further arguments are options of the run,
    such as `context`. A stopped run returns its text, as LangChain's executor does. A stored run that has to wait
    raises `RunStoreError` with its questions. Raises `InputError` for another object, and if langchain-core (extra
    `langchain`) is missing.
    """
    require("langchain_core", "langchain")
    validate("as_runnable", ("executor", executor, _EXECUTOR), ("name", name, NAME))
    # Imports LangChain.
    from graphexec.integrations.langchain.executors import ExecutorRunnable

    return ExecutorRunnable(executor, name)


_EXECUTOR = Constraint("an AgentExecutor", is_executor)


def _planning(plan: Callable[..., Any]) -> Method:
    """Return `plan` or `aplan` as a function of the inputs and the config."""
    read = _reader(plan)

    def call(inputs: dict[str, Any], config: Config) -> Any:
        named = dict(read(inputs))
        steps = named.pop("intermediate_steps")
        return plan(steps, callbacks=config.get("callbacks"), **named)

    return call


def _configured(method: Callable[..., Any]) -> Method:
    """Return a method of a runnable as a function of the inputs and the config."""
    takes_config, read = _takes_config(method), _reader(method)
    return lambda inputs, config: method(read(inputs), **({"config": config} if takes_config else {}))


def _reader(method: Callable[..., Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return how the inputs are passed to a method: to one of an object of LangChain, with messages of its classes."""
    kinds = type(getattr(method, "__self__", None)).__mro__
    return restore_messages if any(one.__module__.startswith("langchain") for one in kinds) else same


def _takes_config(method: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(method).parameters
    # Methods that are written in C may have no signature.
    except (TypeError, ValueError):
        return False
    return "config" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _make_handler(runnable: Any, forms: Mapping[str, Method], config: ConfigLike | None) -> Handler:
    """Return a handler that answers `CallAgent` with a runnable; its chunks are joined to one decision.

    Sync runs use `stream`, `invoke` or `ainvoke`, async runs `astream`, `ainvoke`, `stream` or `invoke`: the first one
    that it has. What blocks runs in a thread in async runs. Raises `AgentError` for an invalid decision.
    """
    name = type(runnable).__name__
    invoke, ainvoke, stream, astream = map(forms.get, ("invoke", "ainvoke", "stream", "astream"))

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        run, own = effect.run, make_config(config, call)
        if wants_pieces():
            own["callbacks"] = _add_listener(own.get("callbacks"))
        config_with_outer = add_outer_config(own)
        try:
            chunks = await decide({**run.inputs, "intermediate_steps": [*map(_pair, run.steps)]}, config_with_outer, io)
        except ValueError as error:
            unreadable = error if isinstance(error, ParseError) else convert_error(error)
            if unreadable is None:
                raise
            return Decided(Unreadable(str(unreadable), unreadable.observation, unreadable.llm_output, unreadable.prose))
        return _join(name, [check_decision(name, convert_decision(name, chunk)) for chunk in chunks])

    async def decide(inputs: dict[str, Any], config: Config, io: IO) -> list[Any]:
        if stream is not None and (io.blocking or (astream is None and ainvoke is None)):
            return await io.call(_list_chunks, stream, inputs, config)
        if astream is not None and not io.blocking:
            chunks: list[Any] = []
            read = partial(astream, inputs, config)
            async with aclosing(io.iterate(tuple[Any, ...], read)) as pieces:
                async for chunk in pieces:
                    # A stream that never waits could not be cut.
                    await io.checkpoint()
                    chunks.append(chunk)
                    await wait_for_capacity()
            return chunks
        if ainvoke is not None and (not io.blocking or invoke is None):
            return [await io.call_async(ainvoke, inputs, config)]
        assert invoke is not None, "a runnable has invoke or ainvoke"
        return [await io.call(invoke, inputs, config)]

    return Handler(answer)


def _join(name: str, decisions: Sequence[Decision]) -> Decided:
    """Return the one decision of a runnable's chunks: their actions, in order, or the only finish.

    Raises `AgentError` for any other decisions.
    """
    finishes = [one for one in decisions if isinstance(one, AgentFinish)]
    actions = tuple(action for one in decisions if isinstance(one, tuple) for action in one)
    if len(finishes) > 1 or (finishes and actions):
        chosen = f"AgentFinish {len(finishes)} times" if len(finishes) > 1 else "an AgentFinish and actions"
        raise AgentError(f"the agent {name} yielded {chosen}; yield one AgentFinish, or actions only")
    if not decisions:
        raise AgentError(f"the agent {name} yielded nothing; yield an AgentAction, a list of them, or an AgentFinish")
    return Decided(finishes[0] if finishes else actions)


def _pair(step: AgentStep) -> tuple[Any, Any]:
    """Return a step with the action in the class that was decided.

    An observation is a string or JSON data, as in a run that was resumed: LangChain writes any other object as its
    `str`. An observation that is too long for the model is cut.
    """
    from pydantic_core import to_jsonable_python

    # A snapshot stores data that look like an image within another object; a runnable gets them as they are.
    whole = step.text == format_observation(step.observation)
    observation = to_jsonable_python(restore_value(dump_observation(step.observation))) if whole else step.text
    original = step.action.original
    if original is None:
        return step.action, observation
    if original.value is None:
        original.value = restore_original(original.data)
    return original.value, observation


def _list_chunks(stream: Method, inputs: dict[str, Any], config: Config) -> list[Any]:
    # The stream is read here, where it may block.
    return list(iterate_unless_cancelled(stream(inputs, config)))


def _add_listener(callbacks: Any) -> Any:
    """Return LangChain's callbacks, a list or a manager, with a listener that reports the tokens of models."""
    listener = _TokenListener()
    if callbacks is None:
        return [listener]
    if hasattr(callbacks, "add_handler"):
        manager = callbacks.copy()
        manager.add_handler(listener)
        return manager
    return [*callbacks, listener]


@final
class _TokenListener:
    """A callback handler in LangChain's form, which reports the tokens that models stream."""

    # LangChain reads these: it calls the handler in the thread or task of the model, and only about models.
    raise_error = False
    run_inline = True
    ignore_llm = False
    ignore_chain = ignore_agent = ignore_retriever = ignore_retry = ignore_chat_model = ignore_custom_event = True

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **others: Any) -> None:
        """Report a token, and the parts of tool calls in its chunk."""
        del others
        if text := text_of(token):
            report(ReplyDelta(text))
        # Any: a list of LangChain's `ToolCallChunk`.
        parts: Any = getattr(getattr(chunk, "message", None), "tool_call_chunks", ())
        for part in parts:
            report(_delta_of(part))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _ignore_event
        raise AttributeError(name)


def _delta_of(part: Mapping[str, Any]) -> ReplyDelta:
    index: Any = part.get("index")
    return ReplyDelta(
        index=index if isinstance(index, int) else 0,
        call_id=part.get("id") or "",
        name=part.get("name") or "",
        arguments=part.get("args") or "",
    )


def _ignore_event(*args: Any, **kwargs: Any) -> None:
    del args, kwargs
