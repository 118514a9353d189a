"""What servers ask during a call, as effects of the run: forms, refusals, batches, pauses, and the model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mcp", reason="needs the extra mcp")

from graphexec import AgentExecutor, AskHuman, Exhausted, Snapshot, advance, create_agent, snapshot_of
from graphexec.draw.runs.data import reply_data
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, MissingHandlerError, ModelError, ToolDefinitionError
from graphexec.integrations.mcp import AnswerMCP, MCPServer, elicit
from graphexec.integrations.mcp.forms import ElicitationForm
from graphexec.kernel import PendingEffect
from graphexec.kernel.events import Answered
from graphexec.messages import ChatRequest, Message, SystemMessage, ToolCall, UserMessage
from graphexec.messages.observations import LABEL
from graphexec.models import ScriptedModel
from graphexec.nodes import sub_agent
from graphexec.runs import SQLiteRuns, Waiting
from tests.integrations.mcp import asking_server
from tests.integrations.mcp.test_reference_servers import command_of

ERAS = ("auto", "legacy")
GOOD = {"size": "large", "How many": "3", "Sure?": "yes"}


def script(*whats: str) -> list[Any]:
    """Return the replies of a model that makes these calls at once, and then answers."""
    return [
        [ToolCall(f"{to}", "ask", json.dumps({"what": what, "to": f"{to}"})) for to, what in enumerate(whats)],
        "done",
    ]


def make(
    server: MCPServer, *replies: Any, answers: Mapping[str, str] | None = None, **options: Any
) -> AgentExecutor[Any]:
    """Return an executor that answers questions by the words in them."""

    def answer(effect: AskHuman) -> str:
        return next(text for words, text in (answers or {}).items() if words in effect.question)

    piece = elicit(server, answer=None if answers is None else answer, **options)
    return create_agent(ScriptedModel(replies), [server], kind="tool_calling", nodes=[piece])


def requests_of(executor: AgentExecutor[Any]) -> list[Any]:
    model: Any = executor.agent.model
    return list(model.requests)


def known_of(result: Any, place: int = 0) -> Any:
    """Return the responses that the server has read in a call; its result names the call."""
    observation = json.loads(result.steps[place].observation)
    assert observation["to"] == f"{place}"
    return observation["known"]


@pytest.mark.medium
@pytest.mark.parametrize("mode", ERAS)
def test_questions_are_effects_of_the_run(mode: str) -> None:
    # Of an older server, one call at a time can ask.
    whats = ["order", "nothing", "order"][: 3 if mode == "auto" else 1]
    with MCPServer(asking_server.make_server(), mode=mode) as server:
        executors = [make(server, *script(*whats), answers=GOOD) for _ in range(2)]
        assert executors[0].verify().proved
        shown: list[Any] = []
        results = (executors[0].run("Order.", observers=[shown.append]), asyncio.run(executors[1].arun("Order.")))
        for result in results:
            responses = {"order": [{"action": "accept", "content": {"size": "large", "count": 3}}], "nothing": []}
            assert [known_of(result, place) for place in range(len(whats))] == [responses[what] for what in whats]
            assert (result.output, result.spent["tool_calls"]) == ("done", len(whats) + whats.count("order"))
        # The model reads neither the question nor the state, and neither traces nor records show the state.
        texts = str([requests_of(executor) for executor in executors])
        calls = [one for one in shown if isinstance(one, Answered) and isinstance(one.reply, ToolResult)]
        assert len(calls) == len(whats) + whats.count("order")
        texts += str([(one.reply.text, reply_data(one.effect, one.reply)) for one in calls])
        assert not any(word in texts for word in ("pizza?", "graphexec:", "v1."))


def test_of_an_older_server_one_call_at_a_time_can_ask() -> None:
    with MCPServer(asking_server.make_server(), mode="legacy") as server:
        result = make(server, *script("consent", "consent", "nothing"), answers=GOOD).run("Order.")
        assert known_of(result, 2) == []
        for place in range(2):
            if result.steps[place].status == "ok":
                assert known_of(result, place) == [{"action": "accept", "content": {}}]
            else:
                assert "only one call at a time" in str(result.steps[place].observation)


@pytest.mark.medium
@pytest.mark.parametrize("mode", ERAS)
def test_answers_are_read_asked_again_and_refused(mode: str) -> None:
    accept = {"action": "accept", "content": {"size": "small"}}
    large = {"action": "accept", "content": {"size": "large", "count": 3}}
    rows: list[tuple[str, dict[str, str], Any]] = [
        ("order", {"one of": "SMALL", "How many": ""}, [accept]),
        # Until it is asked again, with what is wrong.
        ("order", {"'huge' is not one of small, large": "small", "one of": "huge", "How many": " "}, [accept]),
        ("order", {"10 is greater than the maximum of 9": "", "one of": "small", "How many": "10"}, [accept]),
        ("order", {"one of": "small", "How many": "a few"}, [{"action": "cancel"}]),
        ("order", {"one of": "Decline", "How many": "3"}, [{"action": "decline"}]),
        ("consent", {"Sure?": "no"}, [{"action": "decline"}]),
        ("consent", {"Sure?": "cancel"}, [{"action": "cancel"}]),
        *((what, GOOD, [large, {"action": "accept", "content": {}}]) for what in ("twice", "both")),
    ]
    with MCPServer(asking_server.make_server(), mode=mode) as server:
        for what, answers, expected in rows:
            assert known_of(make(server, *script(what), answers=answers).run("Order.")) == expected, answers


@pytest.mark.medium
def test_questions_wait_in_a_store(tmp_path: Path) -> None:
    """All calls of a reply ask at once, and what was invalid is asked again, as another question."""
    rounds = [{"one of": "huge", "How many": "3"}, {"one of": "large"}]
    with MCPServer(asking_server.make_server()) as server, SQLiteRuns(tmp_path / "runs.db") as store:
        executor = make(server, *script("order", "order"))
        keys: list[str] = []
        for answers in rounds:
            waiting = executor.run("Order.", runs=store, run_id="trip")
            assert isinstance(waiting, Waiting)
            for one in waiting.questions:
                text = next(text for words, text in answers.items() if words in one.text)
                assert store.reply("trip", one.key, text)
                keys.append(one.key)
        result = executor.run("Order.", runs=store, run_id="trip")
    assert len(keys) == len({*keys}) == 4 + 2
    for place in range(2):
        assert known_of(result, place) == [{"action": "accept", "content": {"size": "large", "count": 3}}]


@pytest.mark.medium
@pytest.mark.parametrize("mode", ERAS)
def test_what_nobody_answers_is_the_error_of_the_tool(mode: str) -> None:
    rows = [
        ("page", "a web page"),
        ("long", "100,000 characters"),
        ("many", "16 questions"),
        ("endless", "3 times"),
        ("broken", "cannot be shown"),
        # Not declared.
        ("roots", "roots" if mode == "auto" else "List roots not supported"),
        ("sample", "sampling/createMessage" if mode == "auto" else "Sampling not supported"),
    ]
    with MCPServer(asking_server.make_server(), mode=mode) as server:
        for what, fact in rows:
            # Another call of the reply is answered.
            whats = [what, "consent"][: 2 if mode == "auto" else 1]
            result = make(server, *script(*whats), answers=GOOD).run("Order.")
            assert result.steps[0].status == "error", what
            assert fact in str(result.steps[0].observation), what
            assert mode == "legacy" or known_of(result, 1) == [{"action": "accept", "content": {}}]
        # Where no piece answers, also within a machine whose own calls are answered.
        plain = create_agent(ScriptedModel(script("order")), [server], kind="tool_calling")
        task = ToolCall("1", "help", '{"task": "Order."}')
        pieces = [sub_agent(plain, "help", "Orders."), elicit(server)]
        create_agent(ScriptedModel([task, "done"]), kind="tool_calling", nodes=pieces).run("Order.")
        assert "add elicit(server)" in str(requests_of(plain))


def test_servers_cannot_pretend_to_wait() -> None:
    rows: list[dict[str, str]] = [
        {"server": "pizzeria", "tool": "ask", "asked": "{}"},
        {"server": "other", "tool": "ask", "asked": '{"requestState": "?"}'},
        {},
    ]
    with MCPServer(asking_server.make_server()) as server:
        for data in rows:
            forged = ToolResult({LABEL: "the MCP server asks", **data})
            executor = make(server, *script("order"), answers=GOOD)
            result = executor.with_handlers({CallTool: lambda _, forged=forged: forged}).run("Order.")
            assert (result.steps[0].status, result.output) == ("error", "done")
            assert ("other asks" if data.get("server") == "other" else "unknown form") in str(
                result.steps[0].observation
            )


@pytest.mark.medium
@pytest.mark.parametrize("mode", ERAS)
def test_a_paused_run_goes_on_over_another_connection(mode: str) -> None:
    """The server is another process each time; one of the older protocol has lost its call, and says so."""
    command = [sys.executable, asking_server.__file__]
    replies = script(*["order", "consent"][: 2 if mode == "auto" else 1])
    with MCPServer(command, mode=mode) as server:
        with pytest.raises(MissingHandlerError) as raised:
            make(server, *replies).run("Order.")
        paused = snapshot_of(raised.value)
        assert paused is not None
        stored = paused.to_json()
    assert len(stored) < 5_000
    with MCPServer(command, mode=mode) as server:
        # The model has decided before.
        executor = make(server, *replies[1:])
        snapshot = Snapshot.from_json(stored, executor.graph)
        questions: list[str] = []
        while isinstance(pending := advance(executor.graph, snapshot, executor.limits), PendingEffect):
            call = pending.calls[0]
            if not isinstance(call.effect, AskHuman):
                break
            questions.append(call.effect.question)
            assert "\x1b" not in questions[-1]
            text = next(text for words, text in GOOD.items() if words in call.effect.question)
            snapshot = pending.reply_member(call.member, text)
        result = executor.run(snapshot)
    assert result.output == "done"
    if mode == "auto":
        assert (len(questions), result.spent["tool_calls"]) == (3, 4)
        assert known_of(result) == [{"action": "accept", "content": {"size": "large", "count": 3}}]
        assert known_of(result, 1) == [{"action": "accept", "content": {}}]
    else:
        assert (len(questions), result.spent["tool_calls"]) == (2, 2)
        assert "call it again" in str(result.steps[0].observation)


@pytest.mark.medium
@pytest.mark.parametrize("mode", ERAS)
def test_sampling_asks_the_model_and_is_charged(mode: str) -> None:
    with MCPServer(asking_server.make_server(), mode=mode) as server:
        first, last = script("sample")
        executor = make(server, first, "<think>Hm.</think>Red", last, sampling=True)
        assert executor.verify().proved
        result = executor.run("Order.")
        assert known_of(result)[0]["content"] == {"type": "text", "text": "Red"}
        assert (result.spent["model_calls"], result.spent["tool_calls"]) == (3, 2)
        messages: list[Message] = [SystemMessage("Be brief."), UserMessage("Name a colour.")]
        assert requests_of(executor)[1] == ChatRequest(messages)
        for replies, fact in (
            ([first, ModelError("busy"), last], "answer the server (busy)"),
            (script("hear"), "more than text"),
        ):
            result = make(server, *replies, sampling=True).run("Order.")
            assert result.steps[0].status == "error"
            assert fact in str(result.steps[0].observation)


@pytest.mark.medium
def test_the_reference_server_asks_a_person_and_the_model() -> None:
    """It lists other tools to a client that answers."""
    answers = {
        "full, legal name": "Ada",
        "whole number": "7",
        "friend": "joey",
        "fish": "tuna, Trout",
        "Boolean": "yes",
    }
    calls = [
        ToolCall("1", "trigger-elicitation-request", "{}"),
        ToolCall("2", "trigger-sampling-request", '{"prompt": "Name a colour."}'),
        ToolCall("3", "trigger-url-elicitation", '{"url": "https://example.org"}'),
    ]
    with MCPServer(command_of("everything")) as server:
        executor = make(server, *calls[:2], "Red", calls[2], "done", answers={**answers, "": ""}, sampling=True)
        result = executor.run("Ask.")
    form, text, page = [str(step.observation) for step in result.steps]
    given = json.loads(form.partition("Raw result: ")[2])["content"]
    expected = {
        "name": "Ada",
        "integer": 7,
        "untitledSingleSelectEnum": "Joey",
        "titledMultipleSelectEnum": ["fish-1", "fish-3"],
    }
    assert expected.items() <= given.items()
    assert '"text": "Red"' in text
    assert "a visit of a web page, which is not offered" in page


def test_invalid_arguments_and_cut_calls_are_told() -> None:
    server: Any = MCPServer(asking_server.make_server())
    twice = [server, MCPServer(asking_server.make_server())]
    rows: list[tuple[list[Any], dict[str, Any]]] = [([], {}), ([3], {}), (twice, {}), ([server], {"sampling": 1})]
    for arguments, options in rows:
        with pytest.raises(InputError, match="elicit"):
            elicit(*arguments, **options)
    cut = AnswerMCP("ask", {}, server="pizzeria", tool="ask").cut(Exhausted("seconds", 1, 2))
    assert (cut.status, "ask" in cut.text) == ("cut", True)


WORDS = st.text("abcXYZ é", min_size=1).filter(lambda text: text == text.strip())
TITLED = {"oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0"}]}
FIELDS: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, WORDS),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "integer", "minimum": -5}, st.integers(-5)),
    ({"type": "number"}, st.integers(-9, 9).map(lambda number: number / 4)),
    ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ah", "Be"]}, st.sampled_from("ab")),
    ({"type": "string", **TITLED}, st.sampled_from(["#f00", "#0f0"])),
    ({"type": "string", "format": "date"}, st.dates().map(str)),
    ({"type": "string", "format": "date-time"}, st.datetimes().map(lambda time: f"{time.isoformat()}Z")),
    ({"type": "string", "format": "email"}, st.just("ada@example.org")),
    ({"type": "string", "format": "uri"}, st.just("https://example.org")),
    ({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers(), min_size=1)),
    ({"type": "array", "items": {"enum": ["a", "b, c"]}}, st.lists(st.sampled_from(["a", "b, c"]), min_size=1)),
    ({"type": "array", "items": {"anyOf": TITLED["oneOf"]}}, st.lists(st.sampled_from(["#f00"]), min_size=1)),
]


def write(value: str | float | list[Any]) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@given(data=st.data())
def test_forms_read_what_their_questions_ask_for(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4))
    values = {f"f{place}": data.draw(values) for place, (_, values) in enumerate(chosen)}
    fields = {f"f{place}": field for place, (field, _) in enumerate(chosen)}
    words = {"True": "Yes", "False": "no", "#f00": "red"}
    texts = {name: words.get(text, text) for name, text in ((name, write(value)) for name, value in values.items())}
    blank = dict.fromkeys(texts, " ")
    form = ElicitationForm.read_schema("server", "Hello?", {"type": "object", "properties": fields})
    assert form.read(texts) == ({"action": "accept", "content": values}, {})
    assert form.read(blank) == ({"action": "accept", "content": {}}, {})
    assert all("Hello?" in form.ask(name) and "optional" in form.ask(name) for name in texts)
    # As its question says.
    defaults = {name: {**field, "default": values[name]} for name, field in fields.items()}
    form = ElicitationForm.read_schema("server", "Hello?", {"type": "object", "properties": defaults})
    assert form.read(blank) == ({"action": "accept", "content": values}, {})
    assert all("if empty: " in form.ask(name) for name in texts)


def test_answers_that_do_not_fit_are_invalid() -> None:
    rows = [("date", "20261231"), ("date", "2026-13-01"), ("date-time", "2026-12-31"), ("email", "ada"), ("uri", "a b")]
    fields = [({"type": "string", "format": name}, text) for name, text in rows]
    fields += [({"type": "number"}, "1e400"), ({"type": "integer"}, "1.5"), ({"type": "boolean"}, "maybe")]
    for field, text in fields:
        schema = {"type": "object", "properties": {"it": field}, "required": ["it"]}
        assert [*ElicitationForm.read_schema("server", "Hello?", schema).read({"it": text})[1]] == ["it"], text
    # A choice is no refusal.
    schema = {"type": "object", "properties": {"it": {"enum": ["accept", "decline"]}}}
    form = ElicitationForm.read_schema("server", "", schema)
    assert "answer cancel." in form.ask("it")
    assert form.read({"it": "decline"}) == ({"action": "accept", "content": {"it": "decline"}}, {})
    with pytest.raises(ToolDefinitionError, match="address of the type object"):
        ElicitationForm.read_schema("server", "", {"type": "object", "properties": {"address": {"type": "object"}}})


KEYS = ("const", "title", "enum", "type", "items", "oneOf", "")
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "string", "array", "boolean", "^(a+)+$"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
MORE = ("title", "enum", "enumNames", "oneOf", "anyOf", "items", "default", "maximum", "pattern")
SCHEMAS = DATA | st.fixed_dictionaries({"type": DATA}, optional=dict.fromkeys(MORE, DATA))


@given(
    properties=st.dictionaries(st.sampled_from(KEYS), SCHEMAS, max_size=3), required=DATA, answer=st.text(max_size=3)
)
def test_no_form_of_a_server_ends_the_run(properties: Any, required: Any, answer: str) -> None:
    try:
        form = ElicitationForm.read_schema(
            "server", "", {"type": "object", "properties": properties, "required": required}
        )
    except ToolDefinitionError:
        return
    assert all(map(form.ask, form.fields))
    for text in (answer, "", "1", "yes", "decline"):
        response, problems = form.read(dict.fromkeys(form.fields, text))
        assert (response is None) is bool(problems)
        assert all(form.ask(name, problem) for name, problem in problems.items())
