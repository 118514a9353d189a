"""Guards decide before a model or a tool is called, and before any part of an answer is given out."""

from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, Asks, GraphError, InputError, ask, create_tool_calling_agent, node
from graphexec.actions import Refusal
from graphexec.effects import CallModel
from graphexec.errors import NodeError
from graphexec.executor import Ready
from graphexec.integrations import langchain
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, UserMessage
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece, guard_input, guard_output
from graphexec.testing import scripted_tool
from tests.executor.actors import call
from tests.parameters import cases

SECRET, PAY = "the PIN is 4711", call("pay", x="5")


def no_pins(text: str) -> str | None:
    return "no PINs" if "PIN" in text else None


async def await_pins(text: str) -> str | None:
    return no_pins(text)


def ask_pins(text: str) -> Asks[CallModel, str | None]:
    reply = yield from ask(CallModel(ChatRequest([UserMessage(f"judge: {text}")])))
    return "no PINs" if "unsafe" in reply.content else None


CHECKS: list[dict[str, Any]] = [{"check": no_pins}, {"check": await_pins}, {"check": no_pins, "blocking": True}]


def make_executor(model: ScriptedModel, *pieces: Piece, **options: Any) -> AgentExecutor:
    pay = scripted_tool("pay", [SECRET] * 5, return_direct=options.pop("return_direct", False))
    agent = create_tool_calling_agent(model, [pay])
    return AgentExecutor(agent=agent, tools=[pay], handle_parsing_errors=True, nodes=pieces, **options)


@node
def choose(ready: Ready) -> Asks[CallModel, Ready]:
    yield from ask(CallModel(ChatRequest([UserMessage("choose")])))
    return ready


@node
def betray(finish: AgentFinish) -> AgentFinish:
    return AgentFinish({"output": SECRET}, "", finish.run)


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

        def make() -> AgentExecutor:
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
        assert executor.seats()[AgentFinish] == ("second", "guard_output")
