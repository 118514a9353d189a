"""A plugin of pytest for LangChain's own tests: the `AgentExecutor` is ours, and LangChain's loop raises if entered."""

import asyncio
import inspect
import sys
from typing import Any

import pytest
from langchain_classic import agents
from langchain_classic.agents import agent, agent_iterator, initialize

from graphexec.integrations.langchain import AgentExecutor, AgentExecutorIterator

_THEIRS = agent.AgentExecutor
# What LangChain's own loop consists of, in its four forms.
_LOOP = {
    _THEIRS: (
        "_acall _aiter_next_step _aperform_agent_action _atake_next_step _call _consume_next_step _get_tool_return "
        "_iter_next_step _perform_agent_action _should_continue _take_next_step"
    ),
    agent_iterator.AgentExecutorIterator: "__aiter__ __iter__ _aprocess_next_step_output _process_next_step_output",
}


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("LangChain's own loop was entered")


def pytest_configure() -> None:
    """Replace the class before a test imports it."""
    for kind, names in _LOOP.items():
        for name in names.split():
            assert hasattr(kind, name)
            setattr(kind, name, _refuse)
    for module in (agents, agent, initialize):
        vars(module)["AgentExecutor"] = AgentExecutor
    for module in (agents, agent_iterator):
        vars(module)["AgentExecutorIterator"] = AgentExecutorIterator
    assert not [name for name, one in sys.modules.items() if name.startswith("tests") and hasattr(one, "AgentExecutor")]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test; LangChain uses another plugin for this."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(function).parameters}
    asyncio.run(function(**arguments))
    return True
