"""Graphs of LangGraph, a model that always asks for a tool, and the agents of LangChain's packages that it drives."""

import operator
from collections.abc import Callable
from importlib import import_module
from itertools import count
from typing import Annotated, Any, TypedDict

from langchain.agents import middleware as m
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError

from graphexec.integrations.declared import Judgement, judge
from graphexec.integrations.langgraph import load

# Any: these packages are typed in part.
agents: Any = import_module("langchain.agents")
graphs: Any = import_module("langgraph.graph")
prebuilt: Any = import_module("langgraph.prebuilt")

_NUMBERS = count()


class State(TypedDict):
    n: int
    total: Annotated[int, operator.add]
    log: Annotated[list[str], operator.add]
    messages: Annotated[list[Any], graphs.add_messages]
    word: str


# Any: functions, graphs and other runnables, and what users compile of them.
def draft(nodes: dict[str, Any], *edges: tuple[Any, str], **routers: Any) -> Any:
    """Return a graph with these nodes, edges, and routers, each a function, or a function and its path map."""
    builder = graphs.StateGraph(State)
    for name, function in nodes.items():
        builder.add_node(name, function)
    for source, target in edges:
        builder.add_edge(source, target)
    for source, router in routers.items():
        builder.add_conditional_edges(source, *(router if isinstance(router, tuple) else (router,)))
    return builder


def answer(graph: Any, **options: Any) -> Judgement:
    return judge(load(graph), **options)


def select_tools(_: object) -> dict[str, list[str]]:
    return {"tools": ["search"]}


def describe_error(error: Exception, request: object) -> str:
    return f"{error} in {request}"


class Insistent(BaseChatModel):
    """A model that asks for the same tool for ever, or for none."""

    asks: str = "search"

    @property
    def _llm_type(self) -> str:
        return "insistent"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        call: Any = {"name": self.asks, "args": {"query": "x"}, "id": f"call {next(_NUMBERS)}"}
        message = AIMessage("", tool_calls=[call] if self.asks else [])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def with_structured_output(self, *_: Any, **__: Any) -> Any:
        return RunnableLambda(select_tools)


class Deciding(BaseDecisionModel):
    """A decision model that takes the first choice."""

    model: str = "deciding"

    @property
    def _provider(self) -> str:
        return "tests"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        choice: Any = {"type": "choice", "choice": "one", "probabilities": {}, "confidence": 1}
        answers: Any = {
            key: choice if one.type == "choice" else {"type": "noul", "noul": 0} for key, one in questions.items()
        }
        return ClassifierResponse.model_validate({"model": self.model, "answers": answers})


@tool
def search(query: str) -> str:
    """Search."""
    return f"nothing about {query}"


def make_agent(*middleware: Any, asks: str = "search", tools: Any = (search,), **options: Any) -> Any:
    return agents.create_agent(Insistent(asks=asks), [*tools], middleware=middleware, **options)


class Critic(m.AgentMiddleware[Any, Any, Any]):
    """Calls the model again after each of its replies."""

    @m.hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "model"}


class Reviewer(m.AgentMiddleware[Any, Any, Any]):
    """Calls the model again at the end of each run."""

    @m.hook_config(can_jump_to=["model"])
    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "model"}


MIDDLEWARES: dict[str, Callable[[], m.AgentMiddleware[Any, Any, Any]]] = {
    "AutoMode": lambda: m.AutoModeMiddleware(tools=["search"], classifier=Deciding()),
    "ContextEditing": m.ContextEditingMiddleware,
    "FilesystemFileSearch": lambda: m.FilesystemFileSearchMiddleware(root_path="."),
    "HumanInTheLoop": lambda: m.HumanInTheLoopMiddleware(interrupt_on={"delete": True}),
    "LLMToolEmulator": lambda: m.LLMToolEmulator(model=Insistent(), tools=[]),
    "LLMToolSelector": lambda: m.LLMToolSelectorMiddleware(model=Insistent()),
    "ModelFallback": lambda: m.ModelFallbackMiddleware(Insistent()),
    "ModelRefusal": m.ModelRefusalMiddleware,
    "ModelRetry": m.ModelRetryMiddleware,
    "ModelRouter": lambda: m.ModelRouterMiddleware(
        choices={"one": m.ModelChoice(Insistent(), "all")}, instructions="choose", classifier=Deciding()
    ),
    "PII": lambda: m.PIIMiddleware("email"),
    "ProviderToolSearch": m.ProviderToolSearchMiddleware,
    "ShellTool": m.ShellToolMiddleware,
    "Summarization": lambda: m.SummarizationMiddleware(Insistent(), trigger=("messages", 1_000)),
    "TodoList": m.TodoListMiddleware,
    "ToolError": lambda: m.ToolErrorMiddleware(describe_error),
    "ToolRetry": m.ToolRetryMiddleware,
}


def drive(graph: Any, limit: int = 20) -> str:
    """Run an agent within so many steps; return `limited`, `ended`, or the name of another error."""
    try:
        result = graph.invoke({"messages": [("user", "hi")]}, {"recursion_limit": limit})
    except GraphRecursionError:
        return "limited"
    except Exception as error:  # noqa: BLE001 - the name of any error is the result
        return type(error).__name__
    # What `create_react_agent` says in place of an error.
    return "limited" if "need more steps" in str(result["messages"][-1].content) else "ended"
