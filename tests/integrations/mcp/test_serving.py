"""Executors as an MCP server: their answers, their questions as forms, and sealed runs that are used once."""

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, create_agent, tool
from graphexec.actions import Steps
from graphexec.effects import AskHuman
from graphexec.errors import GraphexecError
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Failed
from graphexec.messages import Image
from graphexec.models import ScriptedModel
from graphexec.nodes import approve_tools, ask_user
from graphexec.nodes.approvals import ReviewDecision
from graphexec.runs import SQLiteRuns
from tests.executor.actors import act, answer, fail, scripted
from tests.parameters import cases

if find_spec("mcp") is None:
    pytest.skip("needs the extra mcp", allow_module_level=True)

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.server import Server

from graphexec.integrations.mcp import serve
from tests.integrations.mcp.people import APPROVE, DECLINE, ERAS, PATIENCE, Person, accept, call_mail, text_of

# A pixel.
PNG = "data:image/png;base64,iVBORw0KGgo="


class Mail:
    """An agent that sends each word of its input by a tool, which asks a person."""

    def __init__(self, *decisions: ReviewDecision, runs: SQLiteRuns | None = None) -> None:
        self.sent: list[str] = []

        @tool
        def send(text: str) -> str:
            """Send."""
            self.sent.append(text)
            return f"sent {text}"

        def agent(steps: Steps, inputs: Mapping[str, Any]) -> AgentFinish | list[AgentAction]:
            if steps:
                return answer("; ".join(step.observation for step in steps))
            return [act("send", text=word) for word in inputs["input"].split()]

        allowed = decisions or ("approve", "edit", "reject", "respond")
        gate = approve_tools({"send": allowed}, description="To all.")
        self.executor = AgentExecutor(agent=agent, tools=[send], nodes=[gate], runs=runs)

    def serve(self, **options: Any) -> Server[Any]:
        return serve({"mail": (self.executor, "Sends mail.")}, **options)


def ask(
    server: Server[Any], era: str, arguments: dict[str, Any], person: ElicitationFnT | None = None
) -> types.CallToolResult:
    """Call the only tool of a server as a client of an era."""

    async def main() -> types.CallToolResult:
        async with Client(server, mode=era, elicitation_callback=person) as client:
            (one,) = (await client.list_tools()).tools
            return await client.call_tool(one.name, arguments)

    return asyncio.run(main())


@pytest.mark.medium
@cases("era", *ERAS)
def test_run_is_a_call_with_progress(era: str) -> None:
    mail, steps = Mail(), list[tuple[float, str | None]]()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message))

    async def main() -> None:
        async with Client(mail.serve(), mode=era, elicitation_callback=Person(APPROVE)) as client:
            (one,) = (await client.list_tools()).tools
            assert (one.name, one.description, [*one.input_schema["properties"]]) == ("mail", "Sends mail.", ["input"])
            result = await client.call_tool("mail", {"input": "a b"}, progress_callback=note)
            assert (text_of(result), result.is_error, sorted(mail.sent)) == ("sent a; sent b", False, ["a", "b"])
            found = result.structured_content
            assert found is not None
            assert (found["output"], found["reason"]) == ("sent a; sent b", "finished")
            assert (len(found["run_id"]), found["spent"]["tool_calls"]) == (16, 2)
            with pytest.raises(MCPError, match=r"'post'.*mail") as refused:
                await client.call_tool("post", {})
            assert refused.value.code == types.INVALID_PARAMS

    asyncio.run(main())
    nodes = [message for _, message in steps]
    assert nodes == ["plan", "parse", "approve_tools", "dispatch_tools", "check_return_direct", "plan", "parse"]
    # The run goes on in another request of the later era.
    assert [number for number, _ in steps] == ([1, 2, 3, 1, 2, 3, 4] if era == "auto" else [1, 2, 3, 4, 5, 6, 7])


@tool
def leave() -> None:
    """Exit."""
    sys.exit("no a")


def one_tool(*turns: Any, **options: Any) -> Server[Any]:
    executor: AgentExecutor[Any] = AgentExecutor(agent=scripted(*turns), tools=[fail, leave], **options)
    return serve({"ask": (executor, "Asks.")})


@cases("era", *ERAS)
@cases(
    ("server", "arguments", "expected"),
    (one_tool(answer()), {"inptu": "a"}, "ask was not called: input: Field required"),
    (one_tool(answer()), {"input": 3}, "ask was not called: input"),
    (one_tool(answer()), {"input": "x" * 1_000_001}, "at most 1,000,000"),
    (one_tool(act("fail", text="a"), max_iterations=2), {"input": "a"}, "2 iterations"),
    (one_tool(act("fail", text="a"), handle_tool_errors="raise"), {"input": "a"}, "ask failed: ValueError: no a"),
    (one_tool(act("leave")), {"input": "a"}, "ask failed: SystemExit: no a"),
)
def test_what_ends_without_an_answer_is_an_error(
    era: str, server: Server[Any], arguments: dict[str, Any], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = ask(server, era, arguments)
    assert result.is_error
    assert expected in text_of(result)
    if "iterations" in expected:
        assert result.structured_content is not None
        assert result.structured_content["reason"] == "iterations"
    # Who serves an error of a tool sees where it was raised.
    assert ["no a" in str(one.exc_info) for one in caplog.records] == ([True] if "failed" in expected else [])


@dataclass
class Town:
    name: str
    people: int


def test_executor_with_a_store_waits_there(tmp_path: Path) -> None:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        mail = Mail(runs=store)
        for number, era in enumerate(ERAS):
            result = ask(mail.serve(), era, {"input": "a"})
            [question] = store.questions()
            assert result.is_error
            assert question.key in text_of(result)
            assert store.reply(question.run_id, question.key, "approve")
            assert mail.executor.resume(question.run_id).reason == "finished"  # type: ignore[union-attr]
            assert mail.sent == ["a"] * (number + 1)


@pytest.mark.medium
def test_answers_keep_their_types_and_images() -> None:
    model = ScriptedModel(['Final Answer: {"name": "Oslo", "people": 7}'])
    typed = create_agent(model, kind="react", output_type=Town)
    found = ask(serve({"town": (typed, "Finds.")}), "auto", {"input": "a"}).structured_content
    assert found is not None
    assert found["output"] == {"name": "Oslo", "people": 7}
    # A lone surrogate is no text of UTF-8, and no client reads so long a number.
    for given, text in (("a\ud800", "a?"), (10**5000, "1" + "0" * 5000)):
        result = ask(one_tool(answer(given)), "legacy", {"input": "a"})
        assert result.structured_content is not None
        assert text_of(result) == result.structured_content["output"] == text
    executor = AgentExecutor(agent=scripted(answer(["Here:", Image(PNG)])), tools=[])
    result = ask(serve({"draw": (executor, "Draws.")}), "auto", {"input": "a"})
    (picture,) = [one for one in result.content if isinstance(one, types.ImageContent)]
    assert (picture.mime_type, f"data:image/png;base64,{picture.data}") == ("image/png", PNG)
    assert text_of(result).startswith("Here:\n[image 1")
    assert result.structured_content is not None
    assert result.structured_content["output"] == text_of(result)


# ---- questions


EDIT = accept(decision="edit", arguments='{"text": "b"}')


@pytest.mark.medium
@cases("era", *ERAS)
@cases(
    ("answers", "sent", "output", "problem"),
    ([APPROVE], ["a"], "sent a", None),
    ([accept(decision="approve", arguments='{"text": "a"}')], ["a"], "sent a", None),
    ([EDIT], ["b"], "sent b", None),
    ([accept(decision="reject", text="Not now.")], [], "Not now.", None),
    ([accept(decision="respond", text="Done.")], [], "Done.", None),
    ([DECLINE], [], "declined", None),
    ([types.ElicitResult(action="cancel")], [], "declined", None),
    # What is invalid is asked again, and nothing is called in between.
    ([accept(), APPROVE], ["a"], "sent a", "approve or edit or reject or respond"),
    ([accept(decision="edit", arguments='{"text'), APPROVE], ["a"], "sent a", "line 1"),
    ([accept(decision="edit", arguments='{"text": NaN}'), APPROVE], ["a"], "sent a", "not JSON"),
    ([accept(decision="edit", arguments="7"), APPROVE], ["a"], "sent a", "an object of JSON"),
    ([accept(decision="edit", arguments='{"to": 1}'), APPROVE], ["a"], "sent a", "to: "),
    ([accept(decision="approve", arguments='{"text": "b"}'), EDIT], ["b"], "sent b", "choose edit"),
)
def test_review_is_a_form(
    era: str, answers: list[types.ElicitResult], sent: list[str], output: str, problem: str | None
) -> None:
    mail, person = Mail(), Person(*answers)
    result = ask(mail.serve(), era, {"input": "a"}, person)
    assert output in text_of(result)
    assert mail.sent == sent
    first, *rest = person.forms
    assert 'To all.\nCall send with {"text": "a"}?' in first.message
    assert first.requested_schema["properties"]["decision"]["enum"] == ["approve", "edit", "reject", "respond"]
    assert [(problem or "") in one.message for one in rest] == [True] * (len(answers) - 1)


@cases("era", *ERAS)
def test_all_open_questions_are_asked_at_once(era: str) -> None:
    mail, shown, both = Mail(), list[str](), asyncio.Event()

    async def answer_together(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        shown.append(params.message)
        if len(shown) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), PATIENCE)
        return accept(decision="approve" if '"a"' in params.message else "reject")

    result = ask(mail.serve(), era, {"input": "a b"}, answer_together)
    assert mail.sent == ["a"]
    assert "sent a; send was not called" in text_of(result)


def test_form_that_fails_is_shown_again() -> None:
    """During a call: the other forms keep their answers."""
    mail, shown = Mail(), list[str]()

    async def fail_once(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        shown.append(params.message)
        return types.ErrorData(code=-1, message="no screen") if len(shown) == 1 else APPROVE

    ask(mail.serve(), "legacy", {"input": "a b"}, fail_once)
    assert (sorted(mail.sent), len(shown), "no screen" in shown[2]) == (["a", "b"], 3, True)


@pytest.mark.medium
@cases("era", *ERAS)
@cases(
    ("response", "output"),
    (accept(answer="2024"), "2024"),
    (accept(answer=2024), "2024"),
    (DECLINE, "The person declined to answer."),
)
def test_question_is_a_form(era: str, response: types.ElicitResult, output: str) -> None:
    def agent(steps: Steps, _: object) -> AgentAction | AgentFinish:
        return answer(steps[0].observation) if steps else act("ask_user", question="Which year?")

    executor = AgentExecutor(agent=agent, tools=[], nodes=[ask_user()])
    person = Person(response)
    assert text_of(ask(serve({"weather": (executor, "Knows.")}), era, {"input": "a"}, person)) == output
    assert [one.message for one in person.forms] == ["Which year?"]


def in_a_tool(mail: Mail) -> Server[Any]:
    inner = mail.executor.as_tool("mail", "Sends mail.")
    outer = AgentExecutor(agent=scripted(act("mail", input="a")), tools=[inner], handle_tool_errors="raise")
    return serve({"outer": (outer, "Asks.")})


@cases(
    ("era", "mail", "make", "person", "expected"),
    ("auto", Mail(), Mail.serve, None, '(elicitation): To all.\nCall send with {"text": "a"}?'),
    ("legacy", Mail(), Mail.serve, None, '(elicitation): To all.\nCall send with {"text": "a"}?'),
    ("auto", Mail("approve"), Mail.serve, Person(DECLINE), "a person declined, and may only approve"),
    (
        "legacy",
        Mail("approve", "reject"),
        Mail.serve,
        Person(EDIT),
        "no valid answer: The decision was 'edit'",
    ),
    # The run of an executor within a tool cannot be stored.
    ("auto", Mail(), in_a_tool, Person(APPROVE), "no handler answers ReviewCall"),
)
def test_question_without_a_valid_answer_is_an_error(
    era: str, mail: Mail, make: Callable[[Mail], Server[Any]], person: Person | None, expected: str
) -> None:
    result = ask(make(mail), era, {"input": "a"}, person)
    assert (result.is_error, mail.sent) == (True, [])
    assert expected in text_of(result)


# ---- sealed runs


async def go_on(server: Server[Any], state: str | None = None, **options: Any) -> str:
    """Return the text of a call of `mail`, or the state of its form."""
    async with Client(server, elicitation_callback=Person(APPROVE)) as client:
        text, asked = await call_mail(client, state, **options)
    return asked or text


@pytest.mark.medium
def test_sealed_run_goes_on_once(tmp_path: Path) -> None:
    mail, key = Mail(), tmp_path / "mail.key"
    first, second = mail.serve(key_file=key), mail.serve(key_file=key)

    async def main() -> None:
        state = await go_on(first)
        # Several at a time, and in another process with the same key.
        results = await asyncio.gather(*(go_on(server, state) for server in (first, second) * 3))
        assert (results.count("sent a"), sum("used before" in one for one in results)) == (1, 5)
        # A form without an answer is shown again, in a state of its own.
        old = await go_on(second)
        state = await go_on(first, old, answer=None)
        assert "used before" in await go_on(first, old)
        assert await go_on(first, state) == "sent a"

    for _ in range(2):
        asyncio.run(main())
        with closing(sqlite3.connect(key, isolation_level=None)) as database:
            # What is too old to be accepted is forgotten by the next use.
            assert database.execute("UPDATE used SET until = 0").rowcount == 3
    assert mail.sent == ["a"] * 4
    assert key.stat().st_mode & 0o777 == 0o600


def test_foreign_and_damaged_states_are_refused(tmp_path: Path) -> None:
    key, mail, other = tmp_path / "mail.key", Mail(), Mail()
    other.executor = other.executor.with_tools([*other.executor.tools.values(), fail])
    server, late = mail.serve(key_file=key), mail.serve(key_file=key, ttl=1e-9)

    async def main() -> None:
        state = await go_on(server)
        assert "its executor has changed" in await go_on(other.serve(key_file=key), state)
        refused = [
            await go_on(server, state, word="b"),
            await go_on(server, state[:-4] + "AAAA"),
            await go_on(server, "x" * 100_000),
            await go_on(mail.serve(key_file=key, name="other"), state),
            await go_on(mail.serve(), state),
            await go_on(late, await go_on(late)),
        ]
        assert refused == ["Invalid or expired requestState"] * 6
        # None of these has used it.
        assert await go_on(server, state) == "sent a"

    asyncio.run(main())
    assert (mail.sent, other.sent) == (["a"], [])


def greet(effect: AskHuman, call: CallContext[str]) -> str:
    return f"Hello {call.context}"


def test_invalid_arguments_and_files_are_named(tmp_path: Path) -> None:
    executor: Any = Mail().executor
    valid, text, readable = {"mail": (executor, "a")}, tmp_path / "notes.txt", tmp_path / "readable.key"
    damaged = tmp_path / "damaged.key"
    serve(valid, key_file=damaged)
    with closing(sqlite3.connect(damaged, isolation_level=None)) as database:
        database.execute("UPDATE seal SET key = x'00'")
    text.write_text("not a database, but long enough to be read as one")
    text.chmod(0o600)
    serve(valid, key_file=readable)
    readable.chmod(0o644)
    given: list[tuple[Any, dict[str, Any], str]] = [
        (executor, {}, "give executors by their tools' names"),
        ({}, {}, "give executors by their tools' names"),
        ({"mail": executor}, {}, "give executors by their tools' names"),
        ({"mail": (executor,)}, {}, "give executors by their tools' names"),
        ({"mail": (executor, "")}, {}, "give a string that describes the tool"),
        ({"my mail": (executor, "a")}, {}, "'my mail'; give another: .*spaces"),
        ({"mail": (executor.with_handlers({AskHuman: greet}), "a")}, {}, "mail takes a context"),
        (valid, {"ttl": 0}, "ttl=0; give seconds above 0"),
        (valid, {"name": "", "key_file": 3}, "name=''.*key_file=3"),
        (valid, {"key_file": tmp_path / "no" / "key"}, "no/key cannot be used"),
        (valid, {"key_file": text}, "notes.txt cannot be used: file is not a database"),
        (valid, {"key_file": damaged}, "damaged.key cannot be used: .* 32 bytes"),
        # Not "chmod 600".
        (valid, {"key_file": tmp_path}, f"{tmp_path} cannot be used"),
        (valid, {"key_file": os.devnull}, "it is not a regular file"),
        (valid, {"key_file": readable}, f"other users; chmod 600 {readable}"),
    ]
    for executors, options, expected in given:
        with pytest.raises(GraphexecError, match=expected):
            serve(executors, **options)


@cases("era", *ERAS)
def test_requests_are_independent(era: str) -> None:
    """A blocking tool holds up neither the server nor another run, and a cancelled request cancels its own run."""
    calls, cancelled, both, released = list[str](), threading.Event(), threading.Event(), threading.Event()
    together = threading.Barrier(2, both.set)

    @tool
    def wait(text: str) -> str:
        """Wait."""
        calls.append(text)
        together.wait(PATIENCE)
        released.wait(PATIENCE)
        return text

    def agent(steps: Steps, inputs: Mapping[str, Any]) -> AgentAction | AgentFinish:
        # The cancelled run would go on calling.
        return answer("done") if steps and inputs["input"] == "b" else act("wait", text=inputs["input"])

    def note(event: object) -> None:
        if isinstance(event, Failed):
            cancelled.set()

    server = serve({"wait": (AgentExecutor(agent=agent, tools=[wait], observers=[note]), "Waits.")})

    async def main() -> None:
        async with Client(server, mode=era) as client:
            first, second = (asyncio.create_task(client.call_tool("wait", {"input": one})) for one in "ab")
            assert await asyncio.to_thread(both.wait, PATIENCE)
            first.cancel()
            assert await asyncio.to_thread(cancelled.wait, PATIENCE)
            assert (await client.list_tools()).tools
            released.set()
            assert text_of(await second) == "done"

    asyncio.run(main())
    assert sorted(calls) == ["a", "b"]
