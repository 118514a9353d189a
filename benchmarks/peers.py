"""The loop of `steps.py` in other libraries: the same decision, the same tool, and as little else as each allows.

Each function returns a run of so many steps. A library whose agents need a chat model gets one that calls the tool
until there are enough results; it reads nothing else of its request.
"""

# The libraries are not dependencies of this project, some have no types, and they choose the parameters.
# ruff: noqa: ARG001, ARG002
# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

Run = Callable[[], object]


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def langchain(steps: int) -> Run:
    """LangChain's `AgentExecutor` with an agent that is a function."""
    from langchain_classic.agents import AgentExecutor, BaseSingleActionAgent
    from langchain_core.agents import AgentAction, AgentFinish
    from langchain_core.tools import StructuredTool

    class Decides(BaseSingleActionAgent):
        @property
        def input_keys(self) -> list[str]:
            return ["input"]

        def plan(self, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
            if len(intermediate_steps) < steps:
                return AgentAction("double", {"x": 21}, "")
            return AgentFinish({"output": "done"}, "")

        async def aplan(self, intermediate_steps: Any, callbacks: Any = None, **inputs: Any) -> Any:
            return self.plan(intermediate_steps)

    executor = AgentExecutor(agent=Decides(), tools=[StructuredTool.from_function(double)], max_iterations=2 * steps)
    return lambda: executor.invoke({"input": "Go on."})


def langgraph(steps: int) -> Run:
    """A graph of two nodes in LangGraph, whose state is the list of results."""
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        results: Annotated[list[int], operator.add]

    def plan(state: State) -> dict[str, Any]:
        return {}

    def act(state: State) -> dict[str, Any]:
        return {"results": [double(21)]}

    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("act", act)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda state: "act" if len(state["results"]) < steps else END)
    graph.add_edge("act", "plan")
    compiled = graph.compile()
    return lambda: compiled.invoke({"results": []}, {"recursion_limit": 3 * steps})


def langgraph_agent(steps: int) -> Run:
    """LangChain's `create_agent`, which is a graph of LangGraph, with a scripted chat model."""
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    class Calls(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
            done = sum(1 for message in messages if type(message) is ToolMessage)
            calls = [{"name": "double", "args": {"x": 21}, "id": f"call_{done}"}] if done < steps else []
            return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])

    agent = create_agent(Calls(), [tool(double)])
    asked: Any = {"messages": [{"role": "user", "content": "Go on."}]}
    return lambda: agent.invoke(asked, {"recursion_limit": 3 * steps})


def pydantic_ai(steps: int) -> Run:
    """An agent of pydantic-ai with a model that is a function."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    def decide(messages: Any, info: Any) -> ModelResponse:
        # A request and a response for each step.
        if len(messages) // 2 < steps:
            return ModelResponse(parts=[ToolCallPart("double", {"x": 21})])
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(decide), tools=[double])
    return lambda: agent.run_sync("Go on.", usage_limits=UsageLimits(request_limit=None))


def burr(steps: int) -> Run:
    """An application of Burr with two actions, whose state is the number of results."""
    from burr.core import ApplicationBuilder, State, action, expr

    @action(reads=["done"], writes=["done"])
    def plan(state: State) -> State:
        return state.update(done=state["done"])

    @action(reads=["done", "result"], writes=["done", "result"])
    def act(state: State) -> State:
        return state.update(done=state["done"] + 1, result=double(21))

    @action(reads=["done"], writes=["done"])
    def finish(state: State) -> State:
        return state.update(done=state["done"])

    def run() -> object:
        application = (
            ApplicationBuilder()
            .with_actions(plan=plan, act=act, finish=finish)
            .with_transitions(("plan", "act", expr(f"done < {steps}")), ("plan", "finish"), ("act", "plan"))
            .with_state(done=0, result=0)
            .with_entrypoint("plan")
            .build()
        )
        return application.run(halt_after=["finish"])

    return run


# By the name of the library: the names of the rows, and how to make them.
PEERS: dict[str, dict[str, Callable[[int], Run]]] = {
    "langchain": {"LangChain's AgentExecutor": langchain},
    "langgraph": {"LangGraph, a graph of two nodes": langgraph, "LangGraph, create_agent": langgraph_agent},
    "pydantic-ai": {"pydantic-ai": pydantic_ai},
    "burr": {"Burr": burr},
}
