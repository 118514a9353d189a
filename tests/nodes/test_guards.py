"""Guards and privacy: what no model reads, no tool is called with, and nobody is given."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec.actions import Refusal
from graphexec.effects import CallModel
from graphexec.errors import GraphError, InputError, NodeError
from graphexec.executor import Ready, Stopped
from graphexec.integrations import langchain
from graphexec.memory import BufferMemory
from graphexec.messages import AssistantMessage, ChatRequest, ModelReply, ToolCall, UserMessage
from graphexec.models import FunctionModel, ScriptedModel
from graphexec.nodes import Piece, compact, critic, guard_input, guard_output, handoffs, redact_pii
from graphexec.nodes._personal_data import PATTERNS
from graphexec.testing import scripted_tool
from tests.executor.actors import call, caller_of, messages
from tests.nodes.shelf import run_in_pieces
from tests.parameters import cases, examples, thorough

SECRET, PAY = "the PIN is 4711", call("pay", x="5")


def no_pins(text: str) -> str | None:
    return "no PINs" if "PIN" in text else None


async def await_pins(text: str) -> str | None:
    return no_pins(text)


def ask_pins(text: str) -> gx.Asks[CallModel, str | None]:
    reply = yield from gx.ask(CallModel(ChatRequest([UserMessage(f"judge: {text}")])))
    return "no PINs" if "unsafe" in reply.content else None


CHECKS: list[dict[str, Any]] = [{"check": no_pins}, {"check": await_pins}, {"check": no_pins, "blocking": True}]


def make_executor(model: ScriptedModel, *pieces: Piece, **options: Any) -> gx.AgentExecutor:
    pay = scripted_tool("pay", [SECRET] * 5, return_direct=options.pop("return_direct", False))
    return caller_of(model, pay, handle_parsing_errors=True, nodes=pieces, **options)


@gx.node
def choose(ready: Ready) -> gx.Asks[CallModel, Ready]:
    yield from gx.ask(CallModel(ChatRequest([UserMessage("choose")])))
    return ready


@gx.node
def betray(finish: gx.AgentFinish) -> gx.AgentFinish:
    return gx.AgentFinish({"output": SECRET}, "", finish.run)


EARLY = Piece("early", (choose,), once=True)


class TestInput:
    @cases("options", *CHECKS)
    def test_blocking_guardrail_prevents_tool_execution(self, options: dict[str, Any]) -> None:
        model = ScriptedModel([PAY, "done"])
        result = make_executor(model, guard_input(**options)).run("what is the PIN?")
        assert result.output == "Agent stopped: refused by guard_input: no PINs"
        assert result.reason == "refused"
        assert not model.requests
        assert not result.spent.meters.get("tool_calls")

    def test_model_may_judge(self) -> None:
        model = ScriptedModel(["safe", "done"])
        executor = make_executor(model, guard_input(ask_pins))
        assert executor.run("hi").output == "done"
        refused = make_executor(ScriptedModel(["unsafe"]), guard_input(ask_pins)).run("hi")
        assert refused.output == "Agent stopped: refused by guard_input: no PINs"
        assert refused.spent.meters["model_calls"] == 1

    def test_unfinished_check_refuses(self) -> None:
        """Without a verdict, not even the last word of a stopped run is asked for."""
        model = ScriptedModel(["done"])
        executor = make_executor(model, guard_input(ask_pins), max_model_calls=0, early_stopping_method="generate")
        assert "refused by guard_input: the check was not finished" in str(executor.run("hi").output)
        assert not model.requests

    def test_only_named_inputs_are_checked(self) -> None:
        executor = make_executor(ScriptedModel(["done"]), guard_input(no_pins, inputs=["other"]))
        assert executor.plug(EARLY).verify().proved, "a piece may ask behind the guard"
        assert executor.run({"input": SECRET, "other": "harmless"}).output == "done"

    @cases(
        ("options", "pieces", "error", "text"),
        ({"check": "x"}, [], InputError, "check='x'; give a function"),
        ({"check": await_pins, "blocking": True}, [], InputError, "blocking=True; leave it out"),
        ({"check": no_pins, "inputs": "input"}, [], InputError, "give a list of names"),
        ({"check": str.isprintable}, [], InputError, "the check returned True; return the reason"),
        ({"check": no_pins, "name": "a b"}, [], NodeError, "cannot be named 'a b'"),
        ({"check": no_pins}, [EARLY], GraphError, "choose asks before guard_input is done; put guard_input before"),
        # A misspelt name would let everything pass.
        ({"check": no_pins, "inputs": ["other"]}, [], InputError, "the run has no input other to check; it has input"),
    )
    def test_mistakes_are_refused(self, options: dict[str, Any], pieces: list[Piece], error: Any, text: str) -> None:
        with pytest.raises(error, match=text):
            make_executor(ScriptedModel([]), *pieces, guard_input(**options)).run("hi")


class TestOutput:
    @cases("options", *CHECKS)
    @cases("way", "parse", "return_direct", "generate")
    def test_refused_answer_is_given_nowhere(self, options: Any, way: str, capsys: pytest.CaptureFixture[str]) -> None:
        replies: dict[str, list[Any]] = {"parse": [SECRET], "return_direct": [PAY], "generate": [PAY, SECRET]}

        def make() -> gx.AgentExecutor:
            return make_executor(
                ScriptedModel(replies[way], repeat_last=True),
                guard_output(**options),
                return_direct=way == "return_direct",
                max_iterations=1,
                early_stopping_method="generate",
                verbose=way != "return_direct",
            )

        result = make().run("hi")
        assert result.output == "Agent stopped: refused by guard_output: no PINs"
        assert result.stopped is not None
        assert isinstance(result.stopped.cause, Refusal)
        assert "".join(make().stream_answer("hi")) == result.output
        if way == "parse":
            assert "4711" not in str(list(langchain.stream_chunks(make(), "hi"))) + str(result.ending) + str(
                result.steps
            )
            assert "4711" not in capsys.readouterr().err

    def test_own_text_of_a_stopped_run_is_not_checked(self) -> None:
        executor = make_executor(ScriptedModel([PAY]), guard_output(lambda _: "no"), max_iterations=1)
        assert executor.run("hi").output == "Agent stopped due to iteration limit or time limit."
        # Its last word is withheld without a check.
        model = ScriptedModel([PAY, SECRET])
        options = {"max_model_calls": 1, "early_stopping_method": "generate"}
        result = make_executor(model, guard_output(ask_pins), **options).run("hi")
        assert "4711" not in str(result.output)
        assert result.reason == "refused"
        assert "refused by guard_output" in str(result.output)

    def test_memory_saves_what_was_given_out(self) -> None:
        memory = BufferMemory(as_messages=True, key="chat_history")
        make_executor(ScriptedModel([SECRET]), guard_output(no_pins), memory=memory).run("hi")
        assert "4711" not in str(memory.load({}))
        assert "refused by guard_output" in str(memory.load({}))

    def test_two_guards_fit_and_check_the_answers_of_other_pieces(self) -> None:
        executor = make_executor(ScriptedModel(["fine"]), guard_output(no_pins), Piece("betray", (betray,)))
        assert executor.run("hi").reason == "refused"
        pieces = (guard_output(no_pins), guard_output(lambda _: None, name="second"), guard_input(no_pins))
        executor = make_executor(ScriptedModel(["fine"]), *pieces, guard_input(no_pins, name="third"))
        assert executor.run("hi").output == "fine"
        assert executor.seats()[gx.AgentFinish] == ("second", "guard_output")


# ---- personal data


EMAIL, CARD, IBAN, PHONE = "ann@example.com", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "+49 170 1234567"
PLANTED = (
    EMAIL,
    "bob.b@x.org",
    "10.0.0.7",
    "00:1a:2b:3c:4d:5e",
    "https://x.org/a",
    CARD,
    IBAN,
    PHONE,
    "sk-abcdefghijklmnopqrstuvwx",
)


class Scene:
    """An executor with a scripted model, and a tool that keeps what it was called with and returns these results."""

    def __init__(self, *replies: Any, results: Sequence[Any] = (), **options: Any) -> None:
        self.called: list[Any] = []
        self.model = ScriptedModel(replies, repeat_last=True)
        results_left = iter(results)

        @gx.tool(name="send")
        def keep(to: str) -> Any:
            """Send a message."""
            self.called.append(to)
            return next(results_left, "sent")

        self.executor = caller_of(self.model, keep, **{"nodes": [redact_pii()], **options})

    @property
    def sent(self) -> str:
        return str([messages(request) for request in self.model.requests])


def send(to: str) -> ToolCall:
    return call("send", to=to)


@gx.node
def add_note(ready: Ready) -> Ready:
    return Ready(ready.run.with_aside(notes={"note": f"ask {EMAIL}"}, state=ready.run.aside.state))


MAIL = f"mail {EMAIL}"
BADGES = redact_pii({"BADGE": r"B-[0-9]{3}"}, keep=["B-000"], name="badges")
ADDRESSES = redact_pii({"IP": r"[0-9]+(?:[.][0-9]+){3}"}, name="addresses")
STRUCTURED = '[{"type":"text","text":"Reach me at [EMAIL_1]"}]'
LAST_WORD: dict[str, Any] = {"max_iterations": 1, "early_stopping_method": "generate"}


class TestBothWays:
    def test_tools_and_people_get_the_values(self) -> None:
        scene = Scene(send("[EMAIL_1]"), "mailed [EMAIL_1], cc [EMAIL_2]", results=["cc bob@x.org"])
        result = scene.executor.run(MAIL)
        assert (scene.called, result.output) == ([EMAIL], f"mailed {EMAIL}, cc bob@x.org")
        assert result.steps[0].action.tool_input == {"to": EMAIL}
        assert result.steps[0].observation == "cc bob@x.org"
        assert "@" not in scene.sent
        assert list(Scene("to [EMAIL_1]").executor.stream_answer(MAIL)) == [f"to {EMAIL}"]

    def test_without_restoring_tokens_stay(self) -> None:
        scene = Scene(send("[EMAIL_1]"), f"[EMAIL_1] and {PHONE}", nodes=[redact_pii(restore=False)])
        assert scene.executor.run(MAIL).output == "[EMAIL_1] and [PHONE]"
        assert scene.called == ["[EMAIL_1]"]

    @cases(
        ("scene", "text", "output"),
        # Invented tokens, and those that a tool writes, get no value.
        (Scene("[EMAIL_2] [CARD_1] [EMAIL _1]"), MAIL, "[EMAIL_2] [CARD_1] [EMAIL _1]"),
        (Scene(send("[EMAIL_1]"), "it says [TEXT_1]", results=["to [EMAIL_1]"]), MAIL, "it says [EMAIL_1]"),
        (Scene("[BADGE_1]", nodes=[redact_pii(), BADGES]), f"B-123, B-000, {EMAIL}", "B-123"),
        (Scene(send("x"), "so far [EMAIL_1]", **LAST_WORD), MAIL, f"so far {EMAIL}"),
        (Scene(send("x"), "At [IP_1].", results=["IP: 192.168.1.100"], nodes=[ADDRESSES]), "", "At 192.168.1.100."),
    )
    def test_answer_has_the_values(self, scene: Scene, text: str, output: str) -> None:
        assert scene.executor.run(text).output == output

    @cases(
        ("scene", "text", "sent"),
        (Scene("[BADGE_1]", nodes=[redact_pii(), BADGES]), f"B-123, B-000, {EMAIL}", "[BADGE_1], B-000, "),
        (Scene("done", nodes=[redact_pii(), Piece("note", (add_note,))]), "hi", "ask [EMAIL]"),
        # The names of unknown tools are hidden, and structured results keep their structure.
        (Scene(ToolCall("1", EMAIL, "{}"), "done"), "hi", "[EMAIL"),
        (Scene(send("x"), "done", results=[[{"type": "text", "text": f"Reach me at {EMAIL}"}]]), "hi", STRUCTURED),
        (Scene(send("x"), "x", results=["IP: 192.168.1.100"], nodes=[ADDRESSES]), "", "IP: [IP_1]"),
    )
    def test_model_reads_no_values(self, scene: Scene, text: str, sent: str) -> None:
        scene.executor.run(text)
        assert sent in scene.sent
        assert "@" not in scene.sent
        assert "192.168" not in scene.sent

    def test_numbers_and_structures_are_searched(self) -> None:
        data = {"card": 4111111111111111, "who": [EMAIL]}
        scene = Scene(send("x"), "done", results=[data])
        assert scene.executor.run("hi").steps[0].observation == data
        assert "4111" not in scene.sent

    def test_history_of_a_memory_is_hidden(self) -> None:
        memory = BufferMemory(as_messages=True, key="chat_history")
        scene = Scene("noted [EMAIL_1]", memory=memory)
        scene.executor.run(f"I am {EMAIL}")
        scene.executor.run("who am I?")
        assert memory.load({})["chat_history"][:2] == (UserMessage(f"I am {EMAIL}"), AssistantMessage(f"noted {EMAIL}"))
        assert "@" not in scene.sent

    def test_vault_survives_json(self) -> None:
        model = ScriptedModel([send("[EMAIL_1]"), "for [EMAIL_1]"])

        def make(observers: Any) -> gx.AgentExecutor:
            @gx.tool
            def send(to: str) -> str:
                """Send a message."""
                return f"sent to {to}"

            return caller_of(model, send, nodes=[redact_pii()], observers=observers)

        result, pauses = run_in_pieces(make, MAIL)
        assert (pauses, result.output) == (3, f"for {EMAIL}")
        assert result.steps[0].action.tool_input == {"to": EMAIL}

    def test_arguments_stay_json(self) -> None:
        """A number becomes a string, not a token without quotation marks."""
        scene = Scene(ToolCall("1", "send", '{"to": 4111111111111111, "cc": "b"}'), "done")
        scene.executor.run("hi")
        message = messages(scene.model.requests[-1])[-2]
        assert isinstance(message, AssistantMessage)
        (made,) = message.tool_calls
        assert json.loads(made.arguments) == {"to": "[CARD_1]", "cc": "b"}

    def test_history_with_calls_is_restored(self) -> None:
        arguments = json.dumps({"to": [EMAIL, "[EMAIL_1]"]})
        history = [AssistantMessage("", (ToolCall("1", "send", arguments),)), UserMessage("go on")]
        scene = Scene("done")
        result = scene.executor.run({"input": "hi", "chat_history": history})
        assert json.loads(result.ending.run.inputs["chat_history"][0].tool_calls[0].arguments)["to"][0] == EMAIL
        assert "@" not in scene.sent

    def test_other_pieces_ask_without_the_values(self) -> None:
        """A handoff records calls with the values; no critic and no summary may read them."""
        asked = ScriptedModel(["shorter"], repeat_last=True)
        member = Scene(ToolCall("1", "transfer_to_host", "{}"), nodes=[]).executor
        calls = (ToolCall("1", "send", '{"to": "[EMAIL_1]"}'), ToolCall("2", "transfer_to_other", "{}"))
        pieces = [redact_pii(), critic(model=asked), compact(1, 1), handoffs({"other": member})]
        scene = Scene(ModelReply("", calls), "done", nodes=pieces)
        scene.executor.run(MAIL)
        assert asked.requests
        assert "@" not in scene.sent + str(asked.requests)

    @cases("text", "No personal data here", "", " ")
    def test_requests_without_personal_data_are_the_same(self, text: str) -> None:
        hiding, bare = (Scene(send("x"), "done", nodes=nodes) for nodes in ([redact_pii()], []))
        assert hiding.executor.run(text).steps == bare.executor.run(text).steps
        assert hiding.model.requests == bare.model.requests

    def test_result_without_restoring_has_no_values(self) -> None:
        """As `apply_to_output`: not in the answer, and not in calls without a text."""
        scene = Scene(send(EMAIL), f"My address is {EMAIL}", nodes=[redact_pii(restore=False)])
        result = scene.executor.run("hi")
        assert "@" not in str(result.ending)
        assert "@" not in str([(step.text, step.action.message, step.action.log) for step in result.steps])
        scene = Scene(send("[EMAIL_1]"), "done", results=["bob@x.org"], nodes=[redact_pii(restore=False)])
        ending = scene.executor.run(MAIL).ending
        assert "@" not in str(ending) + str(ending.run.aside)

    @cases(
        ("text", "found", "where", "asked", "steps"),
        (f"Email: {EMAIL}", "", "the inputs", 0, 0),
        ("Search for John", EMAIL, "a call or its result", 1, 1),
    )
    def test_blocked_data_stops_the_run(self, text: str, found: str, where: str, asked: int, steps: int) -> None:
        scene = Scene(send("x"), "done", results=[found], nodes=[redact_pii(strategy={"EMAIL": "block"})])
        stopped = scene.executor.run(text).ending
        assert isinstance(stopped, gx.StoppedResponse)
        assert stopped.cause == Refusal("redact_pii", f"EMAIL in {where}")
        assert (len(scene.model.requests), len(stopped.steps)) == (asked, steps)
        assert EMAIL not in str(stopped)
        assert scene.executor.verify().proved
        # Without a pattern that blocks, the machine has no such edge.
        assert Stopped not in {edge.outcome for edge in Scene("x").executor.graph.edges if "redact" in edge.source}

    @cases(
        ("strategy", "sent"),
        ("redact", "mail [EMAIL] [CARD] [IP] [B]"),
        ("mask", "mail ***@*******.com **** **** **** 1111 **.*.*.7 *****"),
        ("hash", "mail <EMAIL:jelrkqsl> <CARD:cworuyak> <IP:tozpnqst> <B:lzirhoqh>"),
        ({"CARD": "mask"}, "mail [EMAIL_1] **** **** **** 1111 [IP_1] [B_1]"),
    )
    def test_what_is_hidden_for_good_is_not_restored(self, strategy: Any, sent: str) -> None:
        patterns = {**{kind: PATTERNS[kind] for kind in ("EMAIL", "CARD", "IP")}, "B": "B-[0-9]+|3(?!8)"}
        given = f"mail {EMAIL} {CARD} 10.0.0.7 B-123"
        scene = Scene(send(given), given, nodes=[redact_pii(patterns, strategy=strategy)])
        result = scene.executor.run(given)
        assert messages(scene.model.requests[-1])[1].content == sent
        # With tokens, all but the masked is restored.
        shown = given.replace(CARD, "**** **** **** 1111") if isinstance(strategy, dict) else sent
        assert (result.output, result.ending.run.inputs["input"]) == (shown, shown)
        assert scene.called == [given]


def finding(matches: Any) -> Callable[[str], Any]:
    """Return a detector with these matches."""
    return lambda _: matches


class TestPatterns:
    @cases(
        ("text", "kinds"),
        ("a@b.co", "EMAIL"),
        ("4111 1111 1111 1112", ""),
        ("4111111111111111", "CARD"),
        ("12 4111 1111 1111 1111", "CARD"),
        ("DE89 3704 0044 0532 0130 00 AND MORE", "IBAN"),
        ("DE88 3704 0044 0532 0130 00", ""),
        ("+1 (555) 123-4567", "PHONE"),
        ("12:30, 2024-01-01, 1+1 = 2", ""),
        ("AKIAABCDEFGHIJKLMNOP", "API_KEY"),
        *(
            (text, "IP")
            for text in ("at 192.168.1.10.", "10.0.0.1:8080", "::1", "(2001:db8::8a2e:370:7334)", "fe80::1: ok")
        ),
        *((text, "") for text in ("v1.2.3.4", "1.2.3.4.5", "300.1.1.1", "12:30:45", "face::add", "std::1x", "::")),
        *((text, "MAC") for text in ("00:1A:2b:3C:4D:5E", "is 00-1A-2B-3C-4D-5E.")),
        *((text, "") for text in ("00:1A-2B:3C:4D:5E", "00:1A:2B:3C:4D", "x00:1A:2B:3C:4D:5E")),
        *((text, "IP") for text in ("ip:10.0.0.7", "12:30:10.0.0.7", "ip:2001:db8::1", "cafe:1:2:3:4:5:6:7::8")),
        *((text, "MAC") for text in ("MAC:00:1A:2B:3C:4D:5E", "00:1A:2B:3C:4D:5E-a")),
        *((text, "URL") for text in ("url:x.org/a", "@x.org/a")),
        *((text, "URL") for text in ("see HTTPS://a.b/c?d=1.", "www.x.org", "(x.org/a)", "ftp://x", "http://x/")),
        *((text, "") for text in ("x.org", "and/or", "e.g./i.e.", "1.5/2.0", "https://")),
    )
    def test_shelf_finds(self, text: str, kinds: str) -> None:
        assert " ".join(kind for kind, find in PATTERNS.items() if [*find(text)]) == kinds

    @cases(
        ("patterns", "text"),
        (["MAIL"], "no pattern MAIL; it has EMAIL"),
        ({"BADGE": "("}, "the pattern BADGE is invalid"),
        ({"BADGE": "x*"}, "matches the empty string"),
        ({"badge": "x"}, "name it in capitals"),
        ({"BADGE": await_pins}, "give a regular expression or a function"),
        ({"BADGE": finding(None)}, "the pattern BADGE has a match=None; give the start and the end"),
        ({"BADGE": finding([(-1, 2)])}, r"a match=\(-1, 2\)"),
        ({"BADGE": finding([{"start": 0, "end": 3}])}, "a match={'start': 0, 'end': 3}"),
    )
    def test_wrong_patterns_are_refused(self, patterns: Any, text: str) -> None:
        with pytest.raises(InputError, match=text):
            gx.create_agent(ScriptedModel(["a"]), kind="react", nodes=[redact_pii(patterns)]).run("hello")

    @cases(
        ("strategy", "text"),
        ("masked", "strategy='masked'; give one of token, redact, mask, hash, block"),
        ({"EMAIL": "hide"}, "strategy='hide'"),
        ({"URL": "mask"}, "has a strategy for URL, which is no pattern of it"),
    )
    def test_wrong_strategies_are_refused(self, strategy: Any, text: str) -> None:
        with pytest.raises(InputError, match=text):
            redact_pii(strategy=strategy)

    def test_url_ends_before_the_punctuation(self) -> None:
        text = "See (https://x.org/a_(b)), and www.y.org."
        assert [text[slice(*span)] for span in PATTERNS["URL"](text)] == [
            "https://x.org/a_(b",
            "www.y.org",
        ]


# An empty reply is no answer.
PARTS = st.lists(st.sampled_from([*PLANTED, "[EMAIL_1]", " ", "x", "1", "-", "@", "[", "_1]"]), max_size=8)
TEXTS = PARTS.map("".join).filter(str.strip)


@settings(max_examples=examples(40), deadline=None)
@given(TEXTS)
def test_hidden_text_is_restored(text: str) -> None:
    """No request holds a match, and an answer of the same text is restored exactly."""
    echo: list[str] = []

    def reply(request: Any) -> str:
        echo.append(request.messages[-1].content)
        return echo[-1]

    assert caller_of(FunctionModel(reply), nodes=[redact_pii([*PATTERNS])]).run(text).output == text
    assert not [kind for kind, find in PATTERNS.items() if [*find(echo[0])]]


test_many_hidden_texts_are_restored = thorough(test_hidden_text_is_restored, 300, TEXTS)
