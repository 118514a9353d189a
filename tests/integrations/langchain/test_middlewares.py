"""Each behaviour of LangChain's middlewares beside ours: both agents run with one script, and what is seen is equal."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec import errors, memory, messages, models, nodes
from graphexec.models.functions import FunctionModel
from tests.executor.actors import caller_of
from tests.parameters import cases, read_tables

if find_spec("langchain") is None:
    pytest.skip("needs the package langchain", allow_module_level=True)

from langchain.agents import middleware
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

pytestmark = pytest.mark.medium

# Any: their types are partly unknown.
create_agent: Any = import_module("langchain.agents").create_agent

# The rows of each middleware: the file says what is in one.
TABLE: Mapping[str, list[list[Any]]] = read_tables(__file__)
ROOT = Path(__file__).parents[3]

# The errors by their names in scripts: "!TimeoutError". Any: classes of exceptions.
FAILURES: dict[str, Any] = {"ValueError": ValueError, "TimeoutError": TimeoutError, "ServerError": errors.ServerError}


class Seen:
    """What a run shows: the calls that were made, what people were asked, and what the models were sent.

    A script is a list of replies: `search a; delete b` makes two calls, `=text` is an answer, `!ValueError` an error.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row
        self.made: list[str] = []
        self.people: list[str] = []
        self.requests: dict[str, list[list[tuple[str, str]]]] = {}
        self.offered: list[Mapping[str, str]] = []
        self.output = ""
        self.failing = Counter[str](row.get("failing", {}))

    def act(self, name: str, text: str) -> str:
        self.made.append(f"{name} {text}")
        if self.failing[name] > 0:
            self.failing[name] -= 1
            raise ValueError(f"{name} is down")
        return self.row.get("results", {}).get(name, f"{name} of {text}")

    def ask(self, model: str, sent: list[tuple[str, str]], offered: Mapping[str, str]) -> None:
        self.requests.setdefault(model, []).append(sent)
        if model == "main":
            self.offered.append(offered)

    def decide(self, tool: str, arguments: Mapping[str, str], shown: str) -> dict[str, Any]:
        """Return the decision of a person about a call."""
        self.people.append(f"{tool}: {shown}")
        return self.row["decisions"][arguments["text"]]

    def facts(self) -> dict[str, Any]:
        last = self.requests.get("main", [[]])[-1]
        return {
            "made": sorted(self.made),
            "asked": {name: len(several) for name, several in self.requests.items()},
            "offered": [sorted(one) for one in self.offered],
            "described": [one.get("write_todos") for one in self.offered],
            "results": sorted(text for role, text in last if role == "tool"),
            "output": self.output,
            "people": len(self.people),
        }

    @property
    def text(self) -> str:
        """All that anybody was told."""
        sent = [text for several in self.requests.values() for one in several for _, text in one]
        return "\n".join([*sent, *self.people, self.output])


def read_reply(reply: str) -> str | list[tuple[str, dict[str, Any]]]:
    """Return the text of a reply, `~` before a refusal, or its calls. Raises the error that it names."""
    if reply.startswith("!"):
        raise FAILURES[reply[1:]]("the model is down")
    if reply.startswith(("=", "~")):
        return reply.removeprefix("=")
    pairs = [one.strip().split(" ", 1) for one in reply.split(";")]
    return [(name, {"todos": json.loads(text)} if name == "write_todos" else {"text": text}) for name, text in pairs]


class Script:
    """The replies of a model in their order; the last one is repeated."""

    def __init__(self, name: str, replies: Sequence[str], seen: Seen) -> None:
        self.name, self.seen, self._left = name, seen, [*replies]

    def next(self) -> str:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]

    def answer(self, sent: list[tuple[str, str]], offered: Mapping[str, str]) -> Any:
        self.seen.ask(self.name, sent, offered)
        return read_reply(self.next())


class TheirModel(BaseChatModel):
    """A chat model of LangChain that follows a script."""

    # Any: pydantic would read the annotations.
    script: Any
    tools: Any = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    # Any: LangChain's signatures, here and below.
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.model_copy(update={"tools": tools})

    def with_structured_output(self, schema: Any, **_: Any) -> Any:
        def choose(given: list[Any]) -> dict[str, list[str]]:
            return {"tools": self._generate(given).generations[0].text.split()}

        return RunnableLambda(choose)

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        several = convert_to_messages(messages)
        sent = [
            (one.type, show(one.text, [call["args"] for call in getattr(one, "tool_calls", ())])) for one in several
        ]
        reply = self.script.answer(sent, {one.name: one.description for one in self.tools})
        if isinstance(reply, str):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content_of(reply)))])
        number = len(self.script.seen.requests[self.script.name])
        calls = [{"name": name, "args": given, "id": f"c{number}.{place}"} for place, (name, given) in enumerate(reply)]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])


# Any: the blocks of their messages.
def content_of(reply: str) -> Any:
    return [{"type": "refusal", "refusal": reply[1:]}] if reply.startswith("~") else reply


def show(text: str, calls: list[Any]) -> str:
    return f"{text}{calls}" if calls else text


class TheirJudge(BaseDecisionModel):
    """A decision model of LangChain that follows a script."""

    script: Any
    model: str = "judge"

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        ((name, question),) = questions.items()
        reply = judge_by(self.script)
        answer: Any = {"type": "noul", "noul": reply}
        if question.type == "choice":
            answer = {"type": "choice", "choice": reply, "probabilities": {reply: 1.0}, "confidence": 1.0}
        return ClassifierResponse(model="judge", answers={name: answer})


def judge_by(script: Script) -> str:
    reply = read_reply(f"={one}" if (one := script.next())[0] != "!" else one)
    assert isinstance(reply, str)
    return reply


class OurModel:
    """The same, as a model of graphexec."""

    instant = True

    def __init__(self, script: Script) -> None:
        self.name, self.script = script.name, script

    def complete(self, request: messages.ModelRequest, *, timeout: float | None = None) -> messages.ModelReply:
        assert isinstance(request, messages.ChatRequest)
        sent = [
            (
                ROLES[type(one)],
                show(one.content, [json.loads(call.arguments) for call in getattr(one, "tool_calls", ())]),
            )
            for one in request.messages
        ]
        reply = self.script.answer(sent, {one.name: one.description for one in request.tools})
        if isinstance(reply, str):
            if reply[0] == "~":
                raise errors.RefusalError(reply[1:])
            return messages.ModelReply(reply)
        number = len(self.script.seen.requests[self.name])
        calls = [
            messages.ToolCall(f"c{number}.{place}", name, json.dumps(given))
            for place, (name, given) in enumerate(reply)
        ]
        return messages.ModelReply("", tuple(calls))

    async def acomplete(self, request: messages.ModelRequest, *, timeout: float | None = None) -> messages.ModelReply:
        return self.complete(request)


# The roles of our messages by the names of LangChain's types.
ROLES: Mapping[type, str] = {
    messages.SystemMessage: "system",
    messages.UserMessage: "human",
    messages.AssistantMessage: "ai",
    messages.ToolMessage: "tool",
}


def make_functions(seen: Seen) -> list[Callable[..., str]]:
    def search(text: str) -> str:
        """Search the archive."""
        return seen.act("search", text)

    def delete(text: str) -> str:
        """Delete a file."""
        return seen.act("delete", text)

    return [search, delete]


def make_scripts(row: Mapping[str, Any], seen: Seen) -> dict[str, Script]:
    replies = {"main": row["script"], **row.get("models", {})}
    return {name: Script(name, several, seen) for name, several in replies.items()}


def run_theirs(row: Mapping[str, Any]) -> Seen:
    seen = Seen(row)
    made: dict[str, Any] = {name: TheirModel(script=script) for name, script in make_scripts(row, seen).items()}
    if "judge" in row:
        made["judge"] = TheirJudge(script=Script("judge", row["judge"], seen))
    # The options of rows are expressions, so that they read as in a program.
    layers: Any = eval(row["theirs"], {**vars(middleware), **made})
    tools = [langchain_tool(one) for one in make_functions(seen)]
    agent = create_agent(
        made["main"], tools, middleware=layers if type(layers) is list else [layers], checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": 30}
    try:
        for question in row.get("inputs", ["q"]):
            result = agent.invoke({"messages": [("user", question)]}, config)
            while pauses := result.get("__interrupt__"):
                shown = [one for pause in pauses for one in pause.value["action_requests"]]
                decisions = [seen.decide(one["name"], one["args"], one["description"]) for one in shown]
                result = agent.invoke(Command(resume={"decisions": decisions}), config)
            seen.output = str(result["messages"][-1].text)
    except Exception as error:  # noqa: BLE001 - of any class: it is what is seen
        seen.output = f"{type(error).__name__}: {error}"
    return seen


def to_review(decision: Mapping[str, Any]) -> nodes.Review:
    edited = decision.get("edited_action")
    if edited is None:
        return nodes.Review(decision["type"], decision.get("message", ""))
    return nodes.Review("edit", arguments=edited["args"], tool=edited["name"])


# Our names, for the options of rows.
PARTS = {name: getattr(module, name) for module in (nodes, models, memory) for name in module.__all__}
PARTS["FunctionModel"] = FunctionModel


def run_ours(row: Mapping[str, Any]) -> Seen:
    seen = Seen(row)
    made: dict[str, Any] = {name: OurModel(script) for name, script in make_scripts(row, seen).items()}
    judge = Script("judge", row.get("judge", ()), seen)

    def review(call: nodes.ReviewCall) -> nodes.Review:
        assert isinstance(call.arguments, dict)
        return to_review(seen.decide(call.tool, call.arguments, str(call)))

    # Any: what reviewers and functions of models are given.
    def ask_judge(_: Any) -> str:
        return judge_by(judge)

    parts = {"review": review, "judge": ask_judge}
    given: dict[str, Any] = eval(f"dict({row['ours']})", {**PARTS, **made, **parts})
    model, options = given.pop("model", made["main"]), given.pop("tools", {})
    tools = [gx.tool(one, **options.get(one.__name__, {})) for one in make_functions(seen)]
    try:
        executor = caller_of(model, *tools, **{"max_iterations": 10, **given})
        for question in row.get("inputs", ["q"]):
            seen.output = str(executor.run(question).output)
    except Exception as error:  # noqa: BLE001 - as above
        seen.output = f"{type(error).__name__}: {error}"
    return seen


def read_row(values: Sequence[Any]) -> dict[str, Any]:
    behaviour, here, theirs, ours, script, seen, *more = values
    named = {"behaviour": behaviour, "here": here, "theirs": theirs, "ours": ours, "script": script, "seen": seen}
    return named | (more[0] if more else {})


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@cases("row", *[read_row(values) for rows in TABLE.values() for values in rows if len(values) > 3])
def test_both_show_the_same(row: dict[str, Any]) -> None:
    for seen in (run_theirs(row), run_ours(row)):
        facts = seen.facts()
        assert {name: facts[name] for name in row["seen"]} == row["seen"], seen.text
        assert [text for text in row.get("told", []) if text not in seen.text] == []
        assert [text for text in row.get("hidden", []) if text in seen.text] == []


def test_tests_that_hold_a_behaviour_are_there() -> None:
    for _, _, test in [values for rows in TABLE.values() for values in rows if len(values) == 3]:
        file, *names = test.split("::")
        parsed = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        assert {*names} <= {one.name for one in parsed if isinstance(one, (ast.FunctionDef, ast.ClassDef))}


def test_table_has_every_middleware_and_most_behaviours() -> None:
    theirs = {name for name in middleware.__all__ if name.endswith(("Middleware", "Emulator"))} - {"AgentMiddleware"}
    assert {*TABLE} == theirs
    rows = [values for rows in TABLE.values() for values in rows]
    assert (len(theirs), sum(len(values) > 2 for values in rows), len(rows)) == (19, 98, 112)
