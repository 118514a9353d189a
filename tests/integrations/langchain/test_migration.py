"""Every row of docs/migration.md: its names are those of LangChain and of this package, and both lines do the same."""

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

from graphexec import AgentExecutor, Tool, create_agent, node
from graphexec.integrations.langchain import runnable_agent
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece
from tests.parameters import cases, read_tables

for _package in ("langchain", "langchain_classic", "deepagents", "langgraph_swarm", "langgraph_supervisor"):
    pytest.importorskip(_package, reason="needs LangChain, of the extra dev")

# Any: the names are of optional packages, here and below.
pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PAGE = Path(__file__).parents[3] / "docs" / "migration.md"
TABLES = read_tables(__file__)
CALL: str = TABLES["values"]["CALL"]


# The section, the left and the right cell of each row of each table.
ROW = re.compile(r"(?m)^\| (.+?) \| (.+?) \|.*\n(?!\|---)")
SECTIONS = re.split(r"(?m)^##+ ", PAGE.read_text(encoding="utf-8"))[1:]
ROWS: list[tuple[str, str, str]] = [(one.partition("\n")[0], *cells) for one in SECTIONS for cells in ROW.findall(one)]


# ---- names


def names_in(cell: str) -> set[str]:
    """Return the names in the code of a cell: what is called or read, and the keywords."""
    names: set[str] = set()
    for code in re.findall(r"(?<!\[)`([^`]+)`(?!\])", cell):
        bare = re.sub(r'f?"[^"]*"', "", code).lstrip("@")
        # `executor.tools` is an attribute of an object with any name.
        names |= {one.rpartition(".")[2] for one in re.findall(r"^[A-Za-z_][\w.]*", bare)}
        names |= set(re.findall(r"(\w+)=", bare))
    return names


def members(path: str) -> set[str]:
    """Return the names in a module, or in a class or function of one: its attributes, fields and parameters."""
    module, _, name = path.partition(":")
    found: Any = import_module(module)
    if not name:
        return {*dir(found), *getattr(found, "__all__", ())}
    found = attrgetter(name)(found)
    fields = {*getattr(found, "model_fields", ()), *getattr(found, "__annotations__", ())}
    # A TypedDict has no signature.
    parameters = () if hasattr(found, "__total__") else inspect.signature(found).parameters
    return {*parameters, *fields, *(dir(found) if isinstance(found, type) else ())}


@cases("side, column", ("theirs", 1), ("ours", 2))
def test_every_name_of_the_page_is_there(side: str, column: int) -> None:
    places: dict[str, list[str]] = TABLES["places"][side]
    known = {section: {name for path in paths for name in members(path)} for section, paths in places.items()}
    assert [(row[0], name) for row in ROWS for name in names_in(row[column]) if name not in known[row[0]]] == []


# ---- what the lines do


class Names(dict[str, Any]):
    """What a line of one side may name: all that is in the modules of its places, and the helpers below."""

    def __init__(self, side: str, **helpers: Any) -> None:
        super().__init__(TABLES["values"], **helpers)
        self.paths = [path for paths in TABLES["places"][side].values() for path in paths if ":" not in path]

    def __missing__(self, name: str) -> Any:
        for module in map(import_module, self.paths):
            with suppress(AttributeError, ImportError):
                return getattr(module, name)
        raise KeyError(name)


LC = Names("theirs")
EXECUTORS: dict[str, Any] = {"theirs": LC["AgentExecutor"], "ours": AgentExecutor}


def bind_tools(model: Any, tools: Any, **options: Any) -> Any:
    return model


NativeModel: Any = type("NativeModel", (LC["FakeMessagesListChatModel"],), {"bind_tools": bind_tools})


def echo(text: str) -> str:
    """Return the text."""
    return text


def make(side: str, *turns: Any, calls: list[Any] | None = None, **options: Any) -> Any:
    """Return an executor of this side whose agent, of LangChain, decides one turn after the other."""

    def plan(inputs: dict[str, Any]) -> Any:
        done = len(inputs["intermediate_steps"])
        if calls is not None:
            calls.append((done, [message.content for message in inputs.get("chat_history", ())]))
        turn = turns[min(done, len(turns) - 1)]
        if isinstance(turn, Exception):
            raise turn
        return turn

    agent: Any = LC["RunnableLambda"](plan)
    options = {"tools": [make_tool(side)], "agent": agent if side == "theirs" else runnable_agent(agent)} | options
    return EXECUTORS[side](**options)


def make_tool(side: str, name: str = "echo") -> Any:
    return (LC["Tool"] if side == "theirs" else Tool)(name=name, func=echo, description="Return the text.")


def make_model(side: str, *replies: Any, **options: Any) -> Any:
    if side == "ours":
        return ScriptedModel([ToolCall("c1", "echo", CALL) if one == CALL else one for one in replies])
    call = LC["AIMessage"]("", tool_calls=[{"name": "echo", "args": {"text": "a"}, "id": "c1"}])
    return NativeModel(responses=[call if one == CALL else LC["AIMessage"](one) for one in replies], **options)


def seen(side: str, *turns: Any, runs: int = 1, **options: Any) -> list[Any]:
    """Return how many steps, and which messages, each call of the agent receives."""
    executor = make(side, *turns, calls=(calls := []), **options)
    for _ in range(runs):
        executor.invoke({"input": "q"})
    return calls


def steps(executor: Any) -> tuple[list[Any], Any]:
    """Return the observations of a run, if they are returned, and its answer."""
    result = executor.invoke({"input": "q", "chat_history": []})
    return [observation for _, observation in result.get("intermediate_steps", ())], result["output"]


def ask(side: str, create: Any, *replies: Any, name: str = "echo") -> Any:
    """Return what `steps` does, for an agent whose model replies so."""
    tools, model, options = [make_tool(side, name)], make_model(side, *replies), TABLES["values"]["STEPS"]
    if isinstance(create, str):
        return steps(LC["initialize_agent"](tools, model, create, **options))
    prompt = LC["PromptTemplate"].from_template("{tools} {tool_names} {input} {agent_scratchpad}")
    prompts = [prompt.partial(tools="", tool_names="")] if side == "theirs" else []
    return steps(EXECUTORS[side](agent=create(model, tools, *prompts), tools=tools, **options))


def passed(side: str, hook: Any, *replies: Any, **piece: Any) -> int:
    """Return how often a run passes a hook of a middleware, or a node that takes and returns outcomes of a class."""
    count: list[None] = []

    def look(value: Any, more: Any = None) -> Any:
        count.append(None)
        return more(value) if callable(more) else value if side == "ours" else None

    model, tools = make_model(side, *replies), [make_tool(side)]
    if side == "theirs":
        LC["create_agent"](model, tools, middleware=[LC[hook](look)]).invoke({"messages": ["q"]})
    else:
        look.__annotations__ = {"value": hook, "return": hook}
        create_agent(model, tools, kind="tool_calling", nodes=[Piece("look", (node(look),), **piece)]).run("q")
    return len(count)


def fails(call: Callable[[], object]) -> bool:
    with suppress(ValueError):
        call()
        return False
    return True


def turns(side: str, memory: Any) -> Any:
    """Return what a memory has of two turns: its key, with a text or with the contents of messages."""
    save, load = ("save_context", "load_memory_variables") if side == "theirs" else ("save", "load")
    for text in "ab":
        getattr(memory, save)({"input": text}, {"output": "the answer"})
    ((key, value),) = getattr(memory, load)({}).items()
    return key, value if isinstance(value, str) else [message.content for message in value]


def evaluate(side: str, line: str) -> Any:
    constants = {name: eval(f"({code})", LC) for name, code in TABLES["constants"].items()}
    helpers = {function.__name__: partial(function, side) for function in (make, seen, ask, turns, passed)}
    helpers |= {"MODEL": partial(make_model, side), "TOOL": make_tool(side), "steps": steps, "fails": fails}
    names = Names(side, LC=LC, echo=echo, SCHEMA=create_model("Schema", text=(str, ...)), **constants, **helpers)
    return eval(f"({line})", names)


@cases("row, theirs, ours", *[(row, lines[0], lines[-1]) for row, lines in TABLES["lines"].items()])
def test_both_lines_do_the_same(row: str, theirs: str, ours: str) -> None:
    assert evaluate("theirs", theirs) == evaluate("ours", ours)


def test_every_row_is_run_or_says_why_not() -> None:
    rows = [(section, re.findall(r"`([^`]+)`", left), right) for section, left, right in ROWS]
    both = {
        codes[0] for section, codes, right in rows if codes and right != "–" and section != "The nineteen middlewares"
    }
    assert both == {one for row in TABLES["lines"] for one in row.split(" | ")} | {*TABLES["not_run"]}


def test_every_middleware_of_langchain_has_a_row() -> None:
    public: list[str] = import_module("langchain.agents.middleware").__all__
    named = {name for _, left, _ in ROWS for name in names_in(left)}
    assert {one for one in public if one.endswith(("Middleware", "Emulator"))} - {"AgentMiddleware"} <= named
    rows = [row for several in read_tables(__file__.replace("migration", "middlewares")).values() for row in several]
    held = sum(len(row) > 2 for row in rows)
    assert f"has their {len(rows)} behaviours: {held} have" in PAGE.read_text(encoding="utf-8")
