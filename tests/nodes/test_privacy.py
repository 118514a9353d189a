"""No model reads personal data, and tools and people get the values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentExecutor, InputError, StoppedResponse, create_agent, create_tool_calling_agent, node, tool
from graphexec.actions import Refusal
from graphexec.executor import Ready, Refused
from graphexec.memory import BufferMemory
from graphexec.messages import AssistantMessage, ChatRequest, ModelReply, ToolCall, UserMessage
from graphexec.models import FunctionModel, ScriptedModel
from graphexec.nodes import Piece, compact, critic, handoffs, redact_pii
from graphexec.nodes.privacy.patterns import PATTERNS
from tests.nodes.shelf import run_in_pieces
from tests.parameters import cases

EMAIL, CARD, IBAN, PHONE = "ann@example.com", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "+49 170 1234567"
PLANTED = (EMAIL, "bob.b@x.org", CARD, IBAN, PHONE, "sk-abcdefghijklmnopqrstuvwx")


def make_executor(replies: list[Any], results: list[Any] | None = None, **options: Any) -> AgentExecutor:
    called: list[Any] = []
    given_back = iter(results or [])

    @tool
    def send(to: str) -> Any:
        """Send a message."""
        called.append(to)
        return next(given_back, "sent")

    model = ScriptedModel(replies, repeat_last=True)
    options.setdefault("nodes", [redact_pii()])
    executor = AgentExecutor(agent=create_tool_calling_agent(model, [send]), tools=[send], **options)
    CALLED[id(executor)], MODELS[id(executor)] = called, model
    return executor


CALLED: dict[int, list[Any]] = {}
MODELS: dict[int, ScriptedModel] = {}


def sent(executor: AgentExecutor) -> str:
    requests = MODELS[id(executor)].requests
    return str([request.messages for request in requests if isinstance(request, ChatRequest)])


def call(to: str) -> ModelReply:
    return ModelReply("", (ToolCall("1", "send", json.dumps({"to": to})),))


class TestBothWays:
    def test_tools_and_people_get_the_values(self) -> None:
        executor = make_executor([call("[EMAIL_1]"), "mailed [EMAIL_1], cc [EMAIL_2]"], ["cc bob@x.org"])
        result = executor.run(f"mail {EMAIL}")
        assert CALLED[id(executor)] == [EMAIL]
        assert result.output == f"mailed {EMAIL}, cc bob@x.org"
        assert result.steps[0].action.tool_input == {"to": EMAIL}
        assert result.steps[0].observation == "cc bob@x.org"
        assert "@" not in sent(executor)

    def test_without_restoring_tokens_stay(self) -> None:
        executor = make_executor([call("[EMAIL_1]"), f"[EMAIL_1] and {PHONE}"], nodes=[redact_pii(restore=False)])
        assert executor.run(f"mail {EMAIL}").output == "[EMAIL_1] and [PHONE]"
        assert CALLED[id(executor)] == ["[EMAIL_1]"]

    def test_invented_tokens_get_no_value(self) -> None:
        executor = make_executor(["[EMAIL_2] [CARD_1] [EMAIL _1]"])
        assert executor.run(f"mail {EMAIL}").output == "[EMAIL_2] [CARD_1] [EMAIL _1]"

    def test_tokens_that_a_tool_writes_get_no_value(self) -> None:
        executor = make_executor([call("[EMAIL_1]"), "it says [TEXT_1]"], ["send [EMAIL_1] to evil"])
        assert executor.run(f"mail {EMAIL}").output == "it says [EMAIL_1]"

    def test_numbers_and_structures_are_searched(self) -> None:
        data = [{"card": 4111111111111111, "who": [EMAIL]}]
        executor = make_executor([call("x"), "done"], data)
        result = executor.run("hi")
        assert result.steps[0].observation == data[0]
        assert "4111" not in sent(executor)

    def test_history_of_a_memory_is_hidden(self) -> None:
        memory = BufferMemory(as_messages=True, key="chat_history")
        executor = make_executor(["noted [EMAIL_1]"], memory=memory)
        executor.run(f"I am {EMAIL}")
        executor.run("who am I?")
        assert memory.load({})["chat_history"][:2] == (UserMessage(f"I am {EMAIL}"), AssistantMessage(f"noted {EMAIL}"))
        assert "@" not in sent(executor)

    def test_vault_survives_json(self) -> None:
        replies = iter([call("[EMAIL_1]"), ModelReply("for [EMAIL_1]")])

        def make(observers: Any) -> AgentExecutor:
            @tool
            def send(to: str) -> str:
                """Send a message."""
                return f"sent to {to}"

            agent = create_tool_calling_agent(FunctionModel(lambda _: next(replies)), [send])
            return AgentExecutor(agent=agent, tools=[send], nodes=[redact_pii()], observers=observers)

        result, pauses = run_in_pieces(make, f"mail {EMAIL}")
        assert pauses == 3
        assert result.output == f"for {EMAIL}"
        assert result.steps[0].action.tool_input == {"to": EMAIL}

    def test_own_patterns_and_exceptions(self) -> None:
        piece = redact_pii({"BADGE": r"B-[0-9]{3}"}, keep=["B-000"], name="badges")
        executor = make_executor(["[BADGE_1]"], nodes=[redact_pii(), piece])
        assert executor.run(f"B-123, B-000, {EMAIL}").output == "B-123"
        assert "[BADGE_1], B-000, " in sent(executor)

    def test_streamed_answer_is_restored_whole(self) -> None:
        executor = make_executor(["to [EMAIL_1]"])
        assert list(executor.stream_answer(f"mail {EMAIL}")) == [f"to {EMAIL}"]

    def test_last_word_is_restored(self) -> None:
        options: dict[str, Any] = {"max_iterations": 1, "early_stopping_method": "generate"}
        executor = make_executor([call("x"), "so far [EMAIL_1]"], **options)
        assert executor.run(f"mail {EMAIL}").output == f"so far {EMAIL}"

    def test_notes_are_hidden(self) -> None:
        @node
        def add_note(ready: Ready) -> Ready:
            return Ready(ready.run.with_aside(notes={"note": f"ask {EMAIL}"}, state=ready.run.aside.state))

        executor = make_executor(["done"], nodes=[redact_pii(), Piece("note", (add_note,))])
        executor.run("hi")
        assert "ask [EMAIL]" in sent(executor)

    def test_arguments_stay_json(self) -> None:
        """A number becomes a string, not a token without quotation marks."""
        reply = ModelReply("", (ToolCall("1", "send", '{"to": 4111111111111111, "cc": "b"}'),))
        executor = make_executor([reply, "done"])
        executor.run("hi")
        request = MODELS[id(executor)].requests[-1]
        assert isinstance(request, ChatRequest)
        message = request.messages[-2]
        assert isinstance(message, AssistantMessage)
        (made,) = message.tool_calls
        assert json.loads(made.arguments) == {"to": "[CARD_1]", "cc": "b"}

    def test_names_of_unknown_tools_are_hidden(self) -> None:
        executor = make_executor([ModelReply("", (ToolCall("1", EMAIL, "{}"),)), "done"])
        executor.run("hi")
        assert "@" not in sent(executor)

    def test_history_with_calls_is_restored(self) -> None:
        arguments = json.dumps({"to": [EMAIL, "[EMAIL_1]"]})
        history = [AssistantMessage("", (ToolCall("1", "send", arguments),)), UserMessage("go on")]
        executor = make_executor(["done"])
        result = executor.run({"input": "hi", "chat_history": history})
        assert json.loads(result.ending.run.inputs["chat_history"][0].tool_calls[0].arguments)["to"][0] == EMAIL
        assert "@" not in sent(executor)

    def test_other_pieces_ask_without_the_values(self) -> None:
        """A handoff records calls with the values; no critic and no summary may read them."""
        asked = ScriptedModel(["shorter"], repeat_last=True)
        member = make_executor([ModelReply("", (ToolCall("1", "transfer_to_host", "{}"),))], nodes=[])
        calls = (ToolCall("1", "send", '{"to": "[EMAIL_1]"}'), ToolCall("2", "transfer_to_other", "{}"))
        pieces = [redact_pii(), critic(model=asked), compact(1, 1), handoffs({"other": member})]
        executor = make_executor([ModelReply("", calls), "done"], nodes=pieces)
        executor.run(f"mail {EMAIL}")
        assert asked.requests
        assert "@" not in sent(executor) + str(asked.requests)

    @cases("text", ["No personal data here", "", " "])
    def test_requests_without_personal_data_are_the_same(self, text: str) -> None:
        hiding, bare = (make_executor([call("x"), "done"], nodes=nodes) for nodes in ([redact_pii()], []))
        assert hiding.run(text).steps == bare.run(text).steps
        assert MODELS[id(hiding)].requests == MODELS[id(bare)].requests

    def test_personal_data_that_the_model_writes_is_hidden_on_request(self) -> None:
        """As `apply_to_output`: in the answer, and in calls without a text."""
        executor = make_executor([call(EMAIL), f"My address is {EMAIL}"], nodes=[redact_pii(restore=False)])
        result = executor.run("hi")
        assert "@" not in str(result.ending)
        assert "@" not in str([(step.model_text, step.action.message, step.action.log) for step in result.steps])

    def test_result_without_restoring_has_no_values(self) -> None:
        executor = make_executor([call("[EMAIL_1]"), "done"], ["bob@x.org"], nodes=[redact_pii(restore=False)])
        result = executor.run(f"mail {EMAIL}")
        assert "@" not in str(result.ending) + str(result.ending.run.aside)

    def test_own_pattern_hides_what_a_tool_finds(self) -> None:
        addresses = redact_pii({"IP": r"[0-9]+(?:[.][0-9]+){3}"}, name="addresses")
        executor = make_executor([call("x"), "It is [IP_1]."], ["Server IP: 192.168.1.100"], nodes=[addresses])
        assert executor.run("Get the IP").output == "It is 192.168.1.100."
        assert "Server IP: [IP_1]" in sent(executor)
        assert "192.168" not in sent(executor)

    def test_structured_results_keep_their_structure(self) -> None:
        executor = make_executor([call("x"), "done"], [[{"type": "text", "text": f"Reach me at {EMAIL}"}]])
        executor.run("hi")
        assert '[{"type":"text","text":"Reach me at [EMAIL_1]"}]' in sent(executor)

    def test_personal_data_can_be_refused(self) -> None:
        """As the strategy `block`: from the user, or from a tool."""

        @node
        def refuse_data(ready: Ready) -> Ready | Refused:
            texts = [ready.run.inputs["input"], *(str(step.observation) for step in ready.run.steps)]
            found = [kind for kind, find in PATTERNS.items() for text in texts if [*find(text)]]
            return Refused(ready.run, "refuse_data", f"personal data: {found[0]}") if found else ready

        for text, result, asked in ((f"Email: {EMAIL}", "", 0), ("Search for John", EMAIL, 1)):
            executor = make_executor([call("x"), "done"], [result], nodes=[Piece("refuse_data", (refuse_data,))])
            stopped = executor.run(text).ending
            assert isinstance(stopped, StoppedResponse)
            assert stopped.refusal == Refusal("refuse_data", "personal data: EMAIL")
            assert len(MODELS[id(executor)].requests) == asked

    def test_agent_is_made_with_it(self) -> None:
        model = ScriptedModel(["Noted: [EMAIL_1]"])
        executor = create_agent(model, [], kind="tool_calling", nodes=[redact_pii()])
        assert executor.run(f"Email: {EMAIL}").output == f"Noted: {EMAIL}"
        assert "[EMAIL_1]" in str(model.requests)
        assert EMAIL not in str(model.requests)


class TestPatterns:
    @cases(
        ("text", "kinds"),
        [
            ("a@b.co", "EMAIL"),
            ("4111 1111 1111 1112", ""),
            ("4111111111111111", "CARD"),
            ("12 4111 1111 1111 1111", "CARD"),
            ("DE89 3704 0044 0532 0130 00 AND MORE", "IBAN"),
            ("DE88 3704 0044 0532 0130 00", ""),
            ("+1 (555) 123-4567", "PHONE"),
            ("12:30, 2024-01-01, 1+1 = 2", ""),
            ("AKIAABCDEFGHIJKLMNOP", "API_KEY"),
        ],
    )
    def test_shelf_finds(self, text: str, kinds: str) -> None:
        assert " ".join(kind for kind, find in PATTERNS.items() if [*find(text)]) == kinds

    @cases(
        ("patterns", "text"),
        [
            (["MAIL"], "no pattern MAIL; it has EMAIL"),
            ({"BADGE": "("}, "the pattern BADGE is invalid"),
            ({"BADGE": "x*"}, "matches the empty string"),
            ({"badge": "x"}, "name it in capitals"),
        ],
    )
    def test_wrong_patterns_are_refused(self, patterns: Any, text: str) -> None:
        with pytest.raises(InputError, match=text):
            redact_pii(patterns)


def check_text(text: str) -> None:
    """Assert that no request holds a match, and that an answer of the same text is restored exactly."""
    echo: list[str] = []

    def reply(request: Any) -> str:
        content: str = request.messages[-1].content
        echo.append(content)
        return content

    agent = create_tool_calling_agent(FunctionModel(reply), [])
    executor = AgentExecutor(agent=agent, tools=[], nodes=[redact_pii()])
    assert executor.run(text).output == text
    assert not [kind for kind, find in PATTERNS.items() if [*find(echo[0])]]


TEXTS = st.lists(st.sampled_from([*PLANTED, "[EMAIL_1]", " ", "x", "1", "-", "@", "[", "_1]"]), max_size=8).map("".join)


@given(TEXTS)
@settings(max_examples=40, deadline=None)
def test_hidden_text_is_restored(text: str) -> None:
    check_text(text)


@pytest.mark.slow
@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_many_hidden_texts_are_restored(text: str) -> None:
    check_text(text)
