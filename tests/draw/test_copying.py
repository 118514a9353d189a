"""Copying from a page in a browser: values, records, and tests that repeat a step."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import graphexec as gx
from graphexec import draw, models, testing
from graphexec.messages import AssistantMessage, ChatRequest, SystemMessage, ToolCall, ToolMessage, UserMessage
from tests.draw.browser import Page, Pages, press, shown
from tests.draw.debugged import failed_node, failed_run, sixty_steps, twelve_tools
from tests.draw.test_pieces import check
from tests.executor.actors import caller_of

# Line separators, quotes, bidi marks, an astral character and a backslash.
NASTY = "a\u2028b \"c\" 'd' \u202e \U0001f389 \\n"


def clipboard(page: Page) -> str:
    page.locator(".copy", has_text="copied").wait_for()
    return str(page.evaluate("navigator.clipboard.readText()"))


def react_run() -> draw.Recording:
    tools = [testing.scripted_tool("fetch", ["313 km", ValueError(NASTY)])]
    call = "Action: fetch\nAction Input: train"
    model = models.ScriptedModel([call, "nonsense", f"Again.\n{call}\nObservation: invented", f"Final Answer: {NASTY}"])
    agent = gx.create_react_agent(model, tools)
    return draw.recording_of(gx.AgentExecutor(agent=agent, tools=tools, handle_parsing_errors=True).run(NASTY))


def structured_run() -> draw.Recording:
    tools = [testing.scripted_tool("fetch", [{"found": [1, None, True, 2.5]}, "x"])]
    calls = [json.dumps({"action": "fetch", "action_input": {"input": each}}) for each in ("a", "b")]
    model = models.ScriptedModel([*calls, '{"action": "final_answer", "answer": "313"}'])
    return draw.recording_of(
        gx.AgentExecutor(agent=gx.create_structured_agent(model, tools), tools=tools).run("How far is it?")
    )


def unparsed_run() -> draw.Recording:
    model = models.ScriptedModel([[ToolCall("a", "fetch", "{}")], [ToolCall("b", "fetch", "{no json")]])
    tools = [testing.scripted_tool("fetch", ["313 km"])]
    with pytest.raises(gx.ParseError) as raised:
        gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, tools), tools=tools).run("How far is it?")
    return draw.recording_of(raised.value)


def test_copied_request_is_the_one_that_the_model_got(pages: Pages) -> None:
    tools = [testing.scripted_tool("fetch", [NASTY])]
    model = models.ScriptedModel([ToolCall("a", "fetch", json.dumps({"input": NASTY})), "Done."])
    page = pages.run(draw.recording_of(caller_of(model, *tools).run(NASTY)), "#step=5")
    request = model.requests[1]
    assert isinstance(request, ChatRequest)
    page.locator(".copy", has_text="copy JSON").click()
    body = json.loads(clipboard(page))
    sent: list[dict[str, object]] = []
    for message in request.messages:
        match message:
            case SystemMessage(content):
                sent.append({"role": "system", "content": content})
            case UserMessage(content):
                sent.append({"role": "user", "content": content})
            case AssistantMessage(content, calls):
                functions = [(call.id, {"name": call.name, "arguments": call.arguments}) for call in calls]
                asked = [{"id": name, "type": "function", "function": function} for name, function in functions]
                sent.append({"role": "assistant", "content": content, "tool_calls": asked})
            case ToolMessage(call_id, content):
                sent.append({"role": "tool", "content": content, "tool_call_id": call_id})
    assert body["messages"] == sent
    assert [one["function"] for one in body["tools"]] == [
        {"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in request.tools
    ]

    def copied(label: str) -> str:
        page.locator(".copy", has_text="copied").wait_for(state="detached")
        page.locator(".copy", has_text=label).click()
        return clipboard(page)

    words = shlex.split(copied("copy curl"))
    assert words[0] == "curl"
    assert json.loads(words[words.index("-d") + 1]) == body
    assert [word for word in words if "Bearer" in word] == ["Authorization: Bearer $OPENAI_API_KEY"]
    compile(copied("copy Python"), "copied.py", "exec")
    events = [json.loads(line)["event"] for line in copied("copy records").strip().split("\n")]
    assert events == ["entered", "asked", "answered", "moved"]


def test_copied_tests_repeat_their_steps(pages: Pages, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    count = 0
    for make in (react_run, structured_run, unparsed_run, failed_run, twelve_tools, sixty_steps):
        recording = make()
        page = pages.run(recording)
        visits = [record["node"] for record in recording.records if record["event"] == "entered"]
        for step in [at for at, node in enumerate(visits, 1) if node == "plan"][-4:]:
            page.goto(f"{page.url.split('#')[0]}#step={step}")
            page.locator("#detail .where", has_text=re.compile(rf"^step {step}\b")).wait_for()
            page.locator(".copy", has_text="copy pytest").click()
            (tests / f"test_{make.__name__}_{step}.py").write_text(clipboard(page), encoding="utf-8")
            count += 1
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", f"--rootdir={tests}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tests,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_ADDOPTS": ""},
    )
    assert f"{count} passed" in done.stdout, done.stdout


@pytest.mark.full
def test_copied_test_notices_another_reply(pages: Pages) -> None:
    page = pages.run(twelve_tools(), "#step=5")
    page.locator(".copy", has_text="copy pytest").click()
    source = clipboard(page)
    scope: dict[str, object] = {}
    exec(source.replace('ModelReply("Shop 3 is', 'ModelReply("Shop 4 is'), scope)
    test = scope["test_step_5"]
    assert callable(test)
    with pytest.raises(AssertionError):
        test()


@pytest.mark.full
def test_copied_tests_may_be_missing_and_records_are_there(pages: Pages) -> None:
    agent = gx.create_tool_calling_agent(models.ScriptedModel(["Done."]), [])
    executor = gx.AgentExecutor(agent=agent, tools=[]).plug(check)
    page = pages.run(draw.recording_of(executor.run("?")), "#step=1")
    assert page.locator(".copy", has_text="copy JSON").count() == 1
    assert page.locator(".copy", has_text="copy pytest").count() == 0
    # It has its reason.
    page = pages.run(failed_node(), "#step=1")
    assert page.locator(".copy", has_text="copy pytest").count() == 1
    page = pages.run(failed_node(), "#step=6")
    assert page.locator(".copy", has_text="copy pytest").count() == 0
    reason = page.locator(".copies .faint").first.inner_text()
    assert reason == "no pytest: the run passed convert_prices, a node that the test would lack"
    # Records are shown on demand.
    recording = sixty_steps()
    page = pages.run(recording, "#step=2")
    summary = page.locator("#detail .records summary")
    assert summary.inner_text() == "2 records"
    summary.click()
    assert '"event": "moved"' in shown(page, ".records pre")
    for address, event in (("#step=0", "start"), ("#step=end", "result")):
        page.goto(f"{page.url.split('#')[0]}{address}")
        page.locator(".copy", has_text="copy records").click()
        assert json.loads(clipboard(page))["event"] == event


def test_key_and_button_copy_values(pages: Pages) -> None:
    page = pages.run(react_run(), "#step=1")
    stops = page.locator("#detail [tabindex='0']").count()
    page.locator(".prompt .message pre").last.focus()
    press(page, "c")
    assert NASTY in clipboard(page)
    assert page.locator("#detail [tabindex='0']").count() == stops
    page = pages.run(twelve_tools(), "#step=3&call=0")
    page.locator(".part.tools .data").first.locator("dt").first.hover()
    page.locator(".copy.corner").click()
    assert json.loads(clipboard(page)) == {"url": "https://shop0.example/ok", "seconds": 0.3}
    page.locator(".part.reply pre").first.hover()
    page.locator(".copy.corner", has_text="copy").click()
    assert clipboard(page) == "<html>contents of https://shop0.example/ok</html>"
