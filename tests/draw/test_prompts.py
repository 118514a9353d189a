"""The prompts of a page in a browser: what is new in them, how two of them differ, and what a reader copies."""

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, draw, effects, models, testing
from graphexec import messages as ms
from graphexec.draw.page.assembly import read_file
from graphexec.executor import AGENT_EXECUTOR, Replied
from tests.draw.browser import Browser, Page, Pages, fragment, press, shown
from tests.draw.recorded import asked_and_answered, failed_node, failed_run, record_events, sixty_steps, twelve_tools
from tests.draw.test_pieces import check
from tests.executor.actors import caller_of, make_react
from tests.parameters import cases

QUESTION = "How far is it from Lisbon to Porto by train?"
SYSTEM = ms.SystemMessage("Be helpful.")


def with_memory(count: int) -> draw.Recording:
    """Record a run after a conversation of so many messages."""
    kinds: tuple[Any, ...] = (ms.UserMessage, ms.AssistantMessage)
    history = [kinds[at % 2](f"{at}: " + "What was said about the harbour. " * 6) for at in range(count)]
    tools = [testing.scripted_tool("fetch", ["313 km"])]
    model = models.ScriptedModel([ms.ToolCall("a", "fetch", '{"input": "train"}'), "313 km."])
    return draw.recording_of(caller_of(model, *tools).run({"input": QUESTION, "chat_history": history}))


def asking(*requests: ms.ModelRequest) -> draw.Recording:
    events: list[gx.Event[Any]] = []
    for request in requests:
        events += asked_and_answered(effects.CallModel(request), ms.ModelReply("Yes."), node="plan")
        events.append(gx.Moved("plan", Replied(actions.Run({}), ms.ModelReply("Yes.")), "parse"))
    return record_events(*events)


def chat(*messages: ms.Message, tools: tuple[ms.ToolSpec, ...] = ()) -> ms.ChatRequest:
    return ms.ChatRequest(messages, tools=tools)


def specs(*names: str) -> tuple[ms.ToolSpec, ...]:
    return tuple(ms.ToolSpec(name, f"The tool {name}.", {"type": "object"}) for name in names)


def in_sight(page: Page, text: str) -> bool:
    box = page.locator("#detail .message pre", has_text=text).bounding_box()
    player = page.locator("#player").bounding_box()
    return box is not None and player is not None and box["y"] + box["height"] <= player["y"]


def test_question_is_in_sight_after_forty_messages(pages: Pages) -> None:
    page = pages.run(with_memory(40), "#step=1", size=(1280, 720))
    folded = page.locator(".prompt summary", has_text="40 earlier messages")
    assert folded.count() == 1
    assert folded.inner_text().startswith("40 earlier messages · 8,0")
    assert in_sight(page, QUESTION)
    assert page.locator(".prompt .message.new").count() == 0
    assert page.locator(".prompt .message").count() <= 2
    assert f"{len(QUESTION)} characters" in page.locator(".prompt .message .role").last.inner_text()
    folded.click()
    assert page.locator(".prompt details .message").count() == 40
    # New messages follow the earlier ones.
    page = pages.run(with_memory(40), "#step=5", size=(1280, 720))
    assert page.locator(".prompt summary").all_inner_texts()[0].startswith("42 earlier messages")
    assert page.locator(".prompt .message.new .role b").all_inner_texts() == ["assistant", "tool"]
    assert in_sight(page, "313 km")
    # A match in an earlier one is shown.
    page = pages.run(with_memory(40), "#step=1&q=37: What")
    assert shown(page, ".prompt details .message mark") == "37: What"


@pytest.mark.full
def test_prompts_show_what_changed(pages: Pages) -> None:
    page = pages.run(sixty_steps(), "#step=5")
    assert shown(page, ".part.model .aside").endswith(" characters · 300 tokens")
    assert shown(page, ".prompt summary").endswith(" characters")
    # Dropped messages are named.
    one, two, three = (ms.UserMessage(word) for word in ("one", "two", "three"))
    page = pages.run(asking(chat(SYSTEM, one, two), chat(SYSTEM, two, three)), "#step=2")
    assert "1 message of step 1 left out" in shown(page, ".prompt")
    assert page.locator(".prompt .message.new pre").all_inner_texts() == ["three"]
    # Changed tools are compared.
    requests = [chat(ms.UserMessage("Go."), tools=specs(name)) for name in ("fetch", "search")]
    page = pages.run(asking(*requests), "#step=2&against=before")
    assert page.locator(".prompt pre del").first.inner_text() == "fetch"
    assert page.locator(".prompt pre ins").first.inner_text() == "search"
    # A prompt of text shows its new end.
    start = "Answer the question. " * 40
    texts = [ms.CompletionRequest(text) for text in (start, f"{start}\nObservation: 7")]
    page = pages.run(asking(*texts), "#step=2")
    assert page.locator(".prompt pre").all_inner_texts() == ["\nObservation: 7"]
    assert page.locator(".prompt summary").all_inner_texts() == [f"{len(start)} characters as before"]
    # Many new messages are shown in part.
    messages = [ms.UserMessage(f"Message {number}.") for number in range(1200)]
    page = pages.run(asking(chat(ms.UserMessage("Other.")), chat(*messages)), "#step=2&against=before")
    # As many differences are not searched for, and the first messages are one that changed.
    assert page.locator(".prompt > .message.changed pre ins").count() == 1
    assert page.locator(".prompt > ins").count() == 99
    page.locator(".prompt > details > summary", has_text="1,100 more").click()
    assert page.locator(".prompt details ins").count() == 1100


def test_prompts_of_two_steps_are_compared(pages: Pages) -> None:
    first = chat(SYSTEM, ms.UserMessage("Plan a trip to Lisbon in May."), ms.AssistantMessage("Gone soon."))
    second = chat(SYSTEM, ms.UserMessage("Plan a trip to Porto in May."), ms.UserMessage("And back?"))
    page = pages.run(asking(first, chat(SYSTEM), second), "#step=3")
    menu, prompt = page.locator("select.against"), page.locator(".prompt")
    options = ["what is new", "against step 1, the first", "against step 2, the one before"]
    assert menu.locator("option").all_inner_texts() == options
    menu.select_option("1")
    for part, texts in {
        "pre del": ["Lisbon"],
        "pre ins": ["Porto"],
        "del > .message pre": ["Gone soon."],
        "ins > .message pre": ["And back?"],
        "summary": ["1 equal message · 11 characters"],
    }.items():
        assert prompt.locator(part).all_inner_texts() == texts
    assert "against=1" in fragment(page)
    page.reload()
    assert shown(page, ".prompt pre del") == "Lisbon"
    menu.select_option("before")
    press(page, "Escape")
    page.locator("#detail").focus()
    press(page, "ArrowLeft")
    assert menu.input_value() == "before"
    assert page.locator("del > .message").count() == 2
    others = ["what is new", "against step 1, the one before", "against step 3"]
    assert menu.locator("option").all_inner_texts() == others


def test_prompt_names_tools_and_parameters(pages: Pages) -> None:
    recorder = draw.Recorder(AGENT_EXECUTOR, model="a-model", parameters={"temperature": 0.5, "max_tokens": 256})
    request = effects.CallModel(chat(ms.UserMessage("?"), tools=specs("a", "b", "c")))
    list(map(recorder, asked_and_answered(request, ms.ModelReply("!"), node="plan")))
    page = pages.run(recorder.recording, "#step=1")
    page.locator(".part.model summary", has_text="3 tools, 2 parameters").click()
    assert page.locator(".definition .tool").all_inner_texts() == ["a", "b", "c"]
    assert "temperature 0.5, max_tokens 256" in shown(page, ".settings")
    page.locator(".definition summary", has_text="schema").first.click()
    assert '"type": "object"' in page.locator(".definition pre").first.inner_text()


@pytest.mark.full
def test_start_names_the_run(pages: Pages) -> None:
    recording = with_memory(0)
    recorder = draw.Recorder(AGENT_EXECUTOR, clock=lambda: 86_400.0 * 365, model="a-model", agent="tool_calling")
    start, began = recorder.recording.records[0], "1971-01-01T00:00:00.000Z"
    assert start["began"] == began
    page = pages.run(draw.Recording([start, *recording.records[1:]]), "#step=0")
    part = page.locator("#detail .part").last.inner_text()
    for fact in (str(recording.records[1]["run"]), began, "a-model"):
        assert fact in part
    press(page, "ArrowRight")
    assert shown(page, "#detail .where").startswith("step 1 · iteration 1")


@pytest.mark.full
def test_long_texts_of_a_difference_are_cut(pages: Pages) -> None:
    words = "many equal words " * 4000
    before, after = (chat(ms.UserMessage(f"{words}{middle} {words}")) for middle in ("one", "two"))
    page = pages.run(asking(before, after), "#step=2&against=before")
    changed = page.locator(".prompt pre")
    assert len(changed.inner_text()) < 1000
    assert changed.locator("del").inner_text() == "one"
    changed.locator(".more").first.click()
    assert len(changed.inner_text()) > 60_000
    before, after = (chat(ms.UserMessage(sign * 6000)) for sign in ("🙂 ", "ω "))
    changed = pages.run(asking(before, after), "#step=2&against=before").locator(".prompt pre")
    assert changed.locator("del").inner_text() == "🙂 " * 1333
    changed.locator("button").first.click()
    assert "".join(changed.locator("del").all_inner_texts()) == "🙂 " * 6000
    # No text is markup.
    hostile = chat(ms.UserMessage('<img src=x onerror="alert(1)"></script>\u202e\u0000'))
    page = pages.run(asking(chat(ms.UserMessage("plain")), hostile), "#step=2&against=before")
    assert "<img src=x" in page.locator("#detail pre ins").first.inner_text()
    assert page.locator("#detail img").count() == 0


# ---- the difference between two texts


Parts = list[tuple[str, str]]


def diff_all(browser: Browser, pairs: list[list[str]]) -> Any:
    """Return the differences that the page's script finds between two texts."""
    page = browser.new_page()
    try:
        script = read_file("scripts/base/diff.js").replace("export ", "")
        return page.evaluate(f"(pairs) => {{ {script}; return pairs.map((one) => diffWords(...one)); }}", pairs)
    finally:
        page.close()


def diff_words(browser: Browser, before: str, after: str) -> Parts:
    [parts] = diff_all(browser, [[before, after]])
    return [(part["kind"], part["text"]) for part in parts]


@cases(
    "before, after, parts",
    ("", "", []),
    ("same", "same", [("same", "same")]),
    ("", "new", [("ins", "new")]),
    ("old", "", [("del", "old")]),
    (
        "the quick brown fox",
        "the slow red fox",
        [("same", "the "), ("del", "quick brown"), ("ins", "slow red"), ("same", " fox")],
    ),
    ("price: 12.", "price: 13.", [("same", "price: "), ("del", "12"), ("ins", "13"), ("same", ".")]),
    ("東京は晴れ", "大阪は晴れ", [("del", "東京"), ("ins", "大阪"), ("same", "は晴れ")]),
    ("قال نعم", "قال لا", [("same", "قال "), ("del", "نعم"), ("ins", "لا")]),
    ("good 👍🏽", "good 👎🏽", [("same", "good "), ("del", "👍"), ("ins", "👎"), ("same", "🏽")]),
)
def test_words_are_compared(browser: Browser, before: str, after: str, parts: Parts) -> None:
    assert diff_words(browser, before, after) == parts


def test_parts_hold_both_texts(browser: Browser) -> None:
    random = Random(19)
    pairs = [["".join(random.choices("ab \n.é", k=random.randrange(14))) for _ in range(2)] for _ in range(400)]
    found = diff_all(browser, pairs)
    for (before, after), parts in zip(pairs, found, strict=True):
        assert "".join(part["text"] for part in parts if part["kind"] != "ins") == before
        assert "".join(part["text"] for part in parts if part["kind"] != "del") == after
        kinds = [part["kind"] for part in parts]
        assert all(one != other for one, other in pairwise(kinds))


def test_long_texts_are_compared_by_lines(browser: Browser) -> None:
    before = "".join(f"line {number} of a long text\n" for number in range(20_000))
    after = before.replace("line 700 of a", "line 700 of one").replace("line 9000 ", "row 9000 ")
    changed = [part for part in diff_words(browser, before, after) if part[0] != "same"]
    assert changed == [("del", "a"), ("ins", "one"), ("del", "line"), ("ins", "row")]
    # Additions alone are found, however many they are.
    added = "".join(f"{number}\n" for number in range(20_000))
    assert diff_words(browser, "from\nto", f"from\n{added}to") == [("same", "from\n"), ("ins", added), ("same", "to")]
    # Texts that differ too much are not compared.
    random = Random(19)
    before, after = ("\n".join(str(random.randrange(10**9)) for _ in range(20_000)) for _ in range(2))
    assert diff_words(browser, before, after) == [("del", before), ("ins", after)]


# Line separators, quotes, bidi marks, an astral character and a backslash.
NASTY = "a\u2028b \"c\" 'd' \u202e \U0001f389 \\n"


def clipboard(page: Page) -> str:
    page.locator(".copy", has_text="copied").wait_for()
    return str(page.evaluate("navigator.clipboard.readText()"))


def react_run() -> draw.Recording:
    tools = [testing.scripted_tool("fetch", ["313 km", ValueError(NASTY)])]
    call = "Action: fetch\nAction Input: train"
    replies = call, "nonsense", f"Again.\n{call}\nObservation: invented", f"Final Answer: {NASTY}"
    return draw.recording_of(make_react(*replies, tools=tools, handle_parsing_errors=True).run(NASTY))


def structured_run() -> draw.Recording:
    tools = [testing.scripted_tool("fetch", [{"found": [1, None, True, 2.5]}, "x"])]
    calls = [json.dumps({"action": "fetch", "action_input": {"input": each}}) for each in ("a", "b")]
    model = models.ScriptedModel([*calls, '{"action": "final_answer", "answer": "313"}'])
    agent = gx.create_structured_agent(model, tools)
    return draw.recording_of(gx.AgentExecutor(agent=agent, tools=tools).run("How far is it?"))


def unparsed_run() -> draw.Recording:
    model = models.ScriptedModel([[ms.ToolCall("a", "fetch", "{}")], [ms.ToolCall("b", "fetch", "{no json")]])
    tools = [testing.scripted_tool("fetch", ["313 km"])]
    with pytest.raises(gx.ParseError) as raised:
        caller_of(model, *tools).run("How far is it?")
    return draw.recording_of(raised.value)


def test_copied_request_is_the_one_that_the_model_got(pages: Pages) -> None:
    tools = [testing.scripted_tool("fetch", [NASTY])]
    model = models.ScriptedModel([ms.ToolCall("a", "fetch", json.dumps({"input": NASTY})), "Done."])
    page = pages.run(draw.recording_of(caller_of(model, *tools).run(NASTY)), "#step=5")
    request = model.requests[1]
    assert isinstance(request, ms.ChatRequest)
    page.locator(".copy", has_text="copy JSON").click()
    body = json.loads(clipboard(page))
    sent: list[dict[str, object]] = []
    for message in request.messages:
        match message:
            case ms.SystemMessage(content):
                sent.append({"role": "system", "content": content})
            case ms.UserMessage(content):
                sent.append({"role": "user", "content": content})
            case ms.AssistantMessage(content, calls):
                functions = [(call.id, {"name": call.name, "arguments": call.arguments}) for call in calls]
                asked = [{"id": name, "type": "function", "function": function} for name, function in functions]
                sent.append({"role": "assistant", "content": content, "tool_calls": asked})
            case ms.ToolMessage(call_id, content):
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
    executor = caller_of(models.ScriptedModel(["Done."])).plug(check)
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
