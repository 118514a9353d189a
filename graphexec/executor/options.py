"""The options of an executor: what they may be, and what is made of them when it is created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from graphexec._arguments import MODEL, PLAIN_FUNCTION, Constraint, adapt, has_methods, is_executor
from graphexec.actions import AgentAction, AgentStep, Steps
from graphexec.agents import Agent
from graphexec.errors import InputError, ParseError, an, format_value
from graphexec.executor.nodes import ReturnDirect, default_feedback

if TYPE_CHECKING:
    from graphexec.messages import Model
    from graphexec.models.functions import ModelFunction

ParsePolicy: TypeAlias = bool | str | Callable[[ParseError], str]

# The number of last steps that the agent sees (0 or less: all), or a function that selects them from all steps.
Trim: TypeAlias = int | Callable[[Steps], Sequence[AgentStep]]

# The output of a stopped run: a set text, or an answer that the model is asked for once more.
EarlyStopping: TypeAlias = Literal["force", "generate"]

# The kinds of agents that `create_agent` makes.
AgentKind: TypeAlias = Literal["tool_calling", "structured", "react"]


EARLY_STOPPING = Constraint("'force' or 'generate'", lambda value: value in get_args(EarlyStopping))
PARSE_POLICY = Constraint(
    "True, False, a string, or a function (def) of the error",
    lambda value: isinstance(value, (bool, str)) or PLAIN_FUNCTION.fits(value),
)
TRIM = Constraint(
    "the number of steps to show, or a function (def) of the steps",
    lambda value: isinstance(value, int) or PLAIN_FUNCTION.fits(value),
)
RETURN_DIRECT = Constraint("'single' or 'any'", lambda value: value in get_args(ReturnDirect))
MEMORY = has_methods("a memory, for example BufferMemory()", "load", "save", "aload", "asave")
HANDLERS = Constraint("a dict, for example {AskHuman: function}", lambda value: isinstance(value, Mapping))


def make_feedback(policy: ParsePolicy) -> Callable[[ParseError], str]:
    """Return the function that makes the observation after an unreadable reply."""
    if isinstance(policy, str):
        return lambda _: policy
    if isinstance(policy, bool):
        return default_feedback

    def call_policy(error: ParseError) -> str:
        text = policy(error)
        # Callers without a type checker may return another type.
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handle_parsing_errors returned {text!r}; return a string, the feedback for the model")
        return text

    return call_policy


def make_selection(trim: Trim) -> Callable[[Steps], Sequence[AgentStep]] | None:
    """Return the function that selects the steps that the agent sees; `None` for all of them."""
    if isinstance(trim, int):
        return None if trim <= 0 else lambda steps: steps if len(steps) <= trim else steps[-trim:]

    def select_steps(steps: Steps) -> Sequence[AgentStep]:
        selected = trim(steps)
        if not isinstance(selected, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"trim_intermediate_steps returned {selected!r}; return the steps to show")
        return [_to_step(one) for one in selected]

    return select_steps


# Any: functions written for LangChain return pairs.
def _to_step(value: Any) -> AgentStep:
    match value:
        case AgentStep():
            return value
        case (AgentAction() as action, observation):
            return AgentStep(action, observation)
        case _:
            raise InputError(f"trim_intermediate_steps returned a sequence with {value!r}; return steps of the run")


# The functions that make a model of one of another library, by an attribute of the latter.
_BRIDGES = {
    "invoke": "from_langchain(model) of graphexec.integrations.langchain",
    "request_stream": "from_pydantic_ai(model) of graphexec.models",
    "chat": "from_openai(client, 'gpt-5-mini') of graphexec.models",
}


def to_model(model: object) -> Model:
    """Return a model: itself, the one that a string names, one of a function, or of a chat model of LangChain.

    Raises `InputError` for anything else, and as `create_model` does.
    """
    # Loads the clients, which programs with a model of their own do not need.
    from graphexec.models.functions import FunctionModel
    from graphexec.models.naming import create_model

    if isinstance(model, str):
        return create_model(model)
    model = adapt(model, "model")
    if MODEL.fits(model):
        # It has the methods of the protocol, which type checkers cannot see.
        return cast("Model", model)
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}; make one, as in {model.__name__}(...)")
    if isinstance(model, Agent) or is_executor(model):
        remedy = "run it as it is" if is_executor(model) else "write AgentExecutor(agent=agent, tools=tools)"
        raise InputError(f"model is {an(type(model).__name__)}, which has a model already; {remedy}")
    for method, bridge in _BRIDGES.items():
        if hasattr(model, method):
            raise InputError(
                f"model is {an(type(model).__name__)}, which has {method}; pass {bridge}, or a name "
                "such as 'openai:gpt-5-mini'"
            )
    if callable(model):
        # Its reply is checked at each call.
        return FunctionModel(cast("ModelFunction", model))
    raise InputError(
        f"model is {format_value(model)}; give a name such as 'openai:gpt-5-mini' or 'local', a model, or a function"
    )
