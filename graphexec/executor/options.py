"""What the options of an executor mean: each is read once, when the executor is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

from graphexec.actions import AgentAction, AgentFinish, AgentStep, Steps, StoppedResponse
from graphexec.errors import InputError, ParseError
from graphexec.executor.table import (
    AGENT_EXECUTOR,
    GENERATING_AGENT_EXECUTOR,
    STRICT_AGENT_EXECUTOR,
    STRICT_GENERATING_AGENT_EXECUTOR,
    Policies,
    Ready,
    ReturnDirect,
    invalid,
)
from graphexec.kernel.graph import Graph

ParsePolicy: TypeAlias = bool | str | Callable[[ParseError], str]

# How many of the last steps the agent is shown (0 or less: all), or a function from all steps to those.
Trim: TypeAlias = int | Callable[[Steps], Sequence[AgentStep]]

# What a stopped run ends with: a set text, or an answer that the model is asked for once more.
EarlyStopping: TypeAlias = Literal["force", "generate"]

_TABLES: dict[tuple[EarlyStopping, bool], Graph[Ready, AgentFinish | StoppedResponse]] = {
    ("force", True): AGENT_EXECUTOR,
    ("force", False): STRICT_AGENT_EXECUTOR,
    ("generate", True): GENERATING_AGENT_EXECUTOR,
    ("generate", False): STRICT_GENERATING_AGENT_EXECUTOR,
}


def table_of(
    early_stopping_method: EarlyStopping, handle_parsing_errors: ParsePolicy
) -> Graph[Ready, AgentFinish | StoppedResponse]:
    """Return the machine that the options mean. Raises `InputError` for one that cannot be."""
    if early_stopping_method not in get_args(EarlyStopping):
        raise InputError(f"early_stopping_method is {early_stopping_method!r}; give 'force' or 'generate'")
    return _TABLES[early_stopping_method, handle_parsing_errors is not False]


def policies_of(handle_parsing_errors: ParsePolicy, trim: Trim, return_direct: ReturnDirect) -> Policies:
    """Return what the options say to the nodes. Raises `InputError` for one that cannot be."""
    if return_direct not in get_args(ReturnDirect):
        raise InputError(f"return_direct is {return_direct!r}; give 'single' or 'any'")
    return Policies(_make_feedback(handle_parsing_errors), _make_selection(trim), return_direct)


def _make_feedback(policy: ParsePolicy) -> Callable[[ParseError], str]:
    if isinstance(policy, str):
        return lambda _: policy
    if isinstance(policy, bool):
        return invalid
    if not callable(policy) or inspect.iscoroutinefunction(policy):
        raise InputError(
            f"handle_parsing_errors is {policy!r}; give True, False, a string, or a function (def) of the error"
        )

    def feedback(error: ParseError) -> str:
        told = policy(error)
        # Users without a type checker return what they like.
        if not isinstance(told, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handle_parsing_errors returned {told!r}; return the text that the model is told")
        return told

    return feedback


def _make_selection(trim: Trim) -> Callable[[Steps], Sequence[AgentStep]] | None:
    if isinstance(trim, int):
        return None if trim <= 0 else lambda steps: steps if len(steps) <= trim else steps[-trim:]
    # Users without a type checker pass what they like.
    if not callable(trim) or inspect.iscoroutinefunction(trim):  # pyright: ignore[reportUnnecessaryComparison]
        raise InputError(
            f"trim_intermediate_steps is {trim!r}; give how many steps to show, or a function (def) of the steps"
        )

    def shown(steps: Steps) -> Sequence[AgentStep]:
        kept = trim(steps)
        if not isinstance(kept, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"trim_intermediate_steps returned {kept!r}; return the steps to show")
        return [_step(one) for one in kept]

    return shown


# Any: a trimming function of LangChain's returns pairs.
def _step(given: Any) -> AgentStep:
    match given:
        case AgentStep():
            return given
        case (AgentAction() as action, observation):
            return AgentStep(action, observation)
        case _:
            raise InputError(f"trim_intermediate_steps returned a sequence with {given!r}; return steps of the run")
