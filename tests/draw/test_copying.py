"""Copying from a page in a browser: requests, values and records."""

import json
import shlex

import pytest

import graphexec as gx
from graphexec import draw, models, testing
from graphexec.messages import AssistantMessage, ChatRequest, SystemMessage, ToolCall, ToolMessage, UserMessage
from tests.draw.browser import Page, Pages, press, shown
from tests.draw.debugged import sixty_steps, twelve_tools
from tests.executor.actors import caller_of

# Line separators, quotes, bidi marks, an astral character and a backslash.
NASTY = "a\u2028b \"c\" 'd' \u202e \U0001f389 \\n"


def clipboard(page: Page) -> str:
    page.locator(".copy", has_text="copied").wait_for()
    return str(page.evaluate("navigator.clipboard.readText()"))


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


@pytest.mark.full
def test_records_are_shown_on_demand(pages: Pages) -> None:
    page = pages.run(sixty_steps(), "#step=2")
    summary = page.locator("#detail .records summary")
    assert summary.inner_text() == "2 records"
    summary.click()
    assert '"event": "moved"' in shown(page, ".records pre")
    for address, event in (("#step=0", "start"), ("#step=end", "result")):
        page.goto(f"{page.url.split('#')[0]}{address}")
        page.locator(".copy", has_text="copy records").click()
        assert json.loads(clipboard(page))["event"] == event


def test_key_and_button_copy_values(pages: Pages) -> None:
    agent = gx.create_react_agent(models.ScriptedModel(["Final Answer: 313"]), [])
    page = pages.run(draw.recording_of(gx.AgentExecutor(agent=agent, tools=[]).run(NASTY)), "#step=1")
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
