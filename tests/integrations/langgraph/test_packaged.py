"""The agents of LangGraph's packages: the answer for each, and a model that asks for a tool for ever agrees."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.parameters import cases

if not all(map(find_spec, ("deepagents", "langchain", "langgraph_supervisor", "langgraph_swarm"))):
    pytest.skip("needs the extra dev", allow_module_level=True)

from langchain.agents import middleware as m
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from pydantic import BaseModel

from graphexec.integrations.langgraph import load
from tests.integrations.langgraph.agents import (
    MIDDLEWARES,
    Critic,
    Insistent,
    Reviewer,
    answer,
    draft,
    drive,
    make_agent,
    prebuilt,
    search,
)

# Any: these packages are typed in part.
create_react_agent: Any = prebuilt.create_react_agent
deepagents: Any = import_module("deepagents")
langgraph_supervisor: Any = import_module("langgraph_supervisor")
langgraph_swarm: Any = import_module("langgraph_swarm")

pytestmark = [
    pytest.mark.medium,
    # Of the packages themselves.
    pytest.mark.filterwarnings("ignore"),
]


class Answer(BaseModel):
    text: str


OUTPUT: Any = {"response_format": ToolStrategy(Answer)}


def calls(**options: Any) -> Any:
    return m.ModelCallLimitMiddleware(**options)


def tool_calls(**options: Any) -> Any:
    return m.ToolCallLimitMiddleware(**options)


@tool
def find(query: str) -> str:
    """Find."""
    return query


class Named(m.ModelCallLimitMiddleware[Any, Any]):
    """A limit under another name."""


class LastWords(m.AgentMiddleware[Any, Any, Any]):
    """A node after the loop."""

    def __init__(self, name: str = "last") -> None:
        self.given = name

    @property
    def name(self) -> str:
        return self.given

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return None


class Changed(m.ModelCallLimitMiddleware[Any, Any]):
    """A limit that counts otherwise: it may be none."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        return None


def with_middleware(name: str) -> Any:
    return make_agent(MIDDLEWARES[name]())


def swarm(asks: str) -> Any:
    alice = make_agent(name="alice", asks=asks, tools=[search, langgraph_swarm.create_handoff_tool(agent_name="bob")])
    bob = make_agent(
        name="bob", asks="transfer_to_alice", tools=[langgraph_swarm.create_handoff_tool(agent_name="alice")]
    )
    return langgraph_swarm.create_swarm([alice, bob], default_active_agent="alice").compile()


def supervisor(asks: str) -> Any:
    agents: Any = [
        make_agent(calls(run_limit=2), name="first"),
        create_react_agent(Insistent(), [search], name="second"),
    ]
    return langgraph_supervisor.create_supervisor(agents, model=Insistent(asks=asks)).compile()


def deep_agent(*middleware: Any) -> Any:
    return deepagents.create_deep_agent(model=Insistent(), tools=[search], middleware=middleware)


END: Any = {"exit_behavior": "end"}
OF_SEARCH: Any = {"tool_name": "search", "run_limit": 3, **END}

# Graphs by their answer and by how they end if the model asks for a tool for ever, or for none.
GRAPHS: dict[tuple[str, str], dict[str, Callable[[], Any]]] = {
    ("ends", "ended"): {
        "agent without tools": lambda: make_agent(tools=()),
        "react without tools": lambda: create_react_agent(Insistent(), []),
    },
    ("bounded", "ended"): {
        "calls": lambda: make_agent(calls(run_limit=3)),
        "calls of a thread": lambda: make_agent(calls(thread_limit=3)),
        "calls, in a subclass": lambda: make_agent(Named(run_limit=3)),
        "calls, not skipped": lambda: make_agent(Critic(), calls(run_limit=3)),
        "tools": lambda: make_agent(tool_calls(run_limit=3, **END)),
        "tools, and last words": lambda: make_agent(tool_calls(run_limit=3, **END), LastWords(), LastWords("again")),
        "tools of a thread": lambda: make_agent(tool_calls(thread_limit=3, **END)),
        "deep agent, calls": lambda: deep_agent(calls(run_limit=1)),
    },
    ("bounded", "ModelCallLimitExceededError"): {
        "calls": lambda: make_agent(calls(run_limit=3, exit_behavior="error")),
    },
    ("counted", "ended"): {"the only tool": lambda: make_agent(tool_calls(**OF_SEARCH))},
    ("counted", "limited"): {
        "the only tool, and no tool": lambda: make_agent(tool_calls(**OF_SEARCH), asks="other"),
        "calls, otherwise": lambda: make_agent(Changed(run_limit=3)),
    },
    ("limited", "limited"): {
        "agent": make_agent,
        **{name: partial(with_middleware, name) for name in MIDDLEWARES},
        "output": lambda: make_agent(tools=(), **OUTPUT),
        "calls, skipped": lambda: make_agent(calls(run_limit=3), Critic()),
        "calls, and back": lambda: make_agent(calls(run_limit=3), Reviewer()),
        "tools, then the model": lambda: make_agent(tool_calls(run_limit=3)),
        "tools, then a critic": lambda: make_agent(tool_calls(run_limit=3, **END), Critic()),
        "a critic, and no calls": lambda: make_agent(Critic(), tool_calls(run_limit=3, **END), asks=""),
        "output, and no calls": lambda: make_agent(tool_calls(run_limit=3, **END), tools=(), asks="", **OUTPUT),
        "one of two tools": lambda: make_agent(tool_calls(**OF_SEARCH), tools=(search, find), asks="find"),
        "react": lambda: create_react_agent(Insistent(), [search]),
        "react with output": lambda: create_react_agent(Insistent(), [search], response_format=Answer),
        "deep agent": deep_agent,
        "swarm": lambda: swarm("search"),
        "swarm, to and fro": lambda: swarm("transfer_to_bob"),
        "supervisor": lambda: supervisor("transfer_to_first"),
    },
}


@cases(("ending", "name"), *((ending, name) for ending, several in GRAPHS.items() for name in several))
def test_drive_agrees_with_the_answer(ending: tuple[str, str], name: str) -> None:
    graph = GRAPHS[ending][name]()
    judged = answer(graph)
    assert (judged.status, drive(graph)) == ending
    assert judged.verdict.proved == (judged.own in ("ends", "bounded"))
    if judged.passes:
        assert judged.longest is not None
        # `create_react_agent` keeps two steps for its last words.
        assert drive(graph, judged.longest + (3 if "react" in name else 1)) == ending[1]


def test_lower_limit_of_calls_is_the_bound() -> None:
    assert answer(make_agent(calls(run_limit=5, thread_limit=3))).rounds == 3
    assert answer(make_agent(calls(run_limit=5), tool_calls(run_limit=2, exit_behavior="end"))).rounds == 3


def test_handoffs_are_edges() -> None:
    handoff: Any = import_module("langgraph_swarm").create_handoff_tool
    agents = {
        "alice": make_agent(tools=[handoff(agent_name="bob")]),
        "bob": make_agent(tools=[handoff(agent_name="alice")]),
    }
    graph = load(draft(agents, ("__start__", "alice")).compile())
    assert not graph.open
    assert (graph.edges["alice"], graph.edges["bob"]) == ({"bob", "__end__"}, {"alice", "__end__"})


def test_agents_of_tools_are_named() -> None:
    @tool
    def ask_agent(query: str) -> str:
        """Ask an agent."""
        return str(inner.invoke({"messages": [("user", query)]}))

    inner = make_agent(name="inner")
    assert load(make_agent(tools=[ask_agent])).unseen == ("inner, by the tool ask_agent",)
    known = {"reader": inner, "writer": make_agent()}

    @tool
    def choose_agent(name: str) -> str:
        """Ask the agent of this name."""
        return str(known[name].invoke({"messages": []}))

    found = ("reader, by the tool choose_agent", "writer, by the tool choose_agent")
    assert load(make_agent(tools=[choose_agent])).unseen == found
    assert load(deepagents.create_deep_agent(model=Insistent())).unseen == ("general-purpose, by the tool task",)
