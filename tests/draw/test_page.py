"""The HTML page: its content, and its behaviour in a browser."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Self

import pytest

from graphexec import AgentExecutor, create_react_agent, create_tool_calling_agent, tool
from graphexec.draw.model.picture import picture_of
from graphexec.draw.model.text import format_duration
from graphexec.draw.page import html, record_json
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.recorder import Recorder
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.visits import visits_of
from graphexec.effects import CallTool, ToolResult
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel import Answered, Asked, Reported
from graphexec.messages import ModelReply, ReplyDelta, ToolCall, Usage
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.tools import AnyTool
from tests.draw.browser import Opened, open_page, wait_for_drawing
from tests.draw.machines import HOSTILE as TEXTS
from tests.draw.machines import ring
from tests.draw.recorded import asked_together
from tests.draw.recorded import record_events as recording_with
from tests.draw.test_timeline import three_entries
from tests.traces import read_compact

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")

QUESTION = "How many people live in Porto?"
HOSTILE = (
    """<script>document.title = "ran"; alert(1)</script><img src=x onerror=alert(2)> "quotes" 'single' & </pre> """
    "\u05e9\u05dc\u05d5\u05dd \u202eturned\u202c \U0001f389 \x1b[31m"
)
MEGABYTE = 1_048_576
# Milliseconds in which the page of a thousand iterations opens, and how often it may be opened for that.
SOON, OPENINGS = 1000, 8


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    return {"Porto": 248_769}[city]


@tool
def nasty(query: str) -> str:
    """Return hostile text and a megabyte."""
    return HOSTILE + "x" * (MEGABYTE - len(HOSTILE))


def record(
    executor: AgentExecutor,
    asked: str,
    *,
    model: str | None = None,
    agent: str | None = None,
    tools: Sequence[str] | None = None,
) -> Recording:
    """Record a run, including one that fails."""
    recorder = Recorder(executor.verify(), inputs=asked, model=model, agent=agent, tools=tools)
    try:
        for event in executor.stream(asked):
            recorder(event)
    except RuntimeError as error:
        recorder.failed(error)
    return recorder.recording


TOOLS: list[AnyTool] = [population, nasty]


def react(
    *replies: str | BaseException, iterations: int = 15, tokens: int | None = 4000, repeat: bool = False
) -> AgentExecutor:
    replies_given = [ModelReply(one, (), Usage(20, 5)) if isinstance(one, str) else one for one in replies]
    model = ScriptedModel(replies_given, repeat_last=repeat)
    agent = create_react_agent(model, TOOLS)
    return AgentExecutor(agent=agent, tools=TOOLS, max_iterations=iterations, max_tokens=tokens)


LOOK_UP = "Let me look it up.\nAction: population\nAction Input: Porto"
HARM = "Hm.\nAction: nasty\nAction Input: <b>now</b>"
FINAL = "I now know the final answer\nFinal Answer: 248769 people live in Porto."


@pytest.fixture(scope="module")
def answered_run() -> Recording:
    return record(react(LOOK_UP, HARM, FINAL), QUESTION, model="smollm2", agent="react", tools=["population", "nasty"])


@contextmanager
def page_of(browser: Browser, folder: Path, text: str, *, width: int = 1440, dark: bool = False) -> Generator[Opened]:
    """Open the page from disk; the test fails if the page makes a request or has an error."""
    file = folder / "page.html"
    file.write_text(text, "utf-8")
    with open_page(browser, file.as_uri(), size=(width, 900), scheme="dark" if dark else "light") as one:
        yield one
        assert one.requests == [file.as_uri()]
        assert one.faults == []


def draw_page(recording: Recording) -> str:
    return html(recording.machine, recording)


# What can be seen in the text.


def data_in(page: str) -> Record:
    matches = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert matches is not None
    data: Record = json.loads(matches[1])
    return data


def test_page_contains_the_records_unchanged(answered_run: Recording) -> None:
    data = data_in(draw_page(answered_run))
    assert read_compact(data["records"]) == list(answered_run.records)
    assert data["picture"] == answered_run.machine.to_data()
    assert data["live"] is None


def test_text_cannot_end_its_script_element(answered_run: Recording) -> None:
    page = draw_page(answered_run)
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    matches = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert matches is not None
    assert matches[1].isascii()
    assert not set("<>&") & set(matches[1])


def test_policy_allows_only_the_page_script_and_style(answered_run: Recording) -> None:
    page = draw_page(answered_run)
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    [script] = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    [css] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy == (
        f"default-src 'none'; script-src {_hashed(script)}; style-src {_hashed(css)}; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    assert "connect-src 'self'" in html(answered_run.machine, live="events")


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_page_names_no_address_but_namespaces() -> None:
    page = html(picture_of(AGENT_EXECUTOR))
    assert set(re.findall(r"https?:[^\s\"'<>]+", page)) == {"http://www.w3.org/2000/svg"}


def test_title_is_escaped() -> None:
    page = draw_page(record(react(FINAL), "</title><script>\x00\n\u202e" + "long " * 40))
    [title] = re.findall(r"<title>(.*?)</title>\n<link", page, re.DOTALL)
    assert title.startswith("&lt;/title&gt;&lt;script&gt;")
    assert title.endswith("…")
    assert title.replace(" ", "").isprintable()


def test_numbers_outside_javascript_range_are_strings() -> None:
    record: Record = {"event": "x", "values": [2**53, 2**53 + 1, -(10**30), float("nan"), float("inf"), 0.5, True]}
    assert json.loads(record_json(record))["values"] == [
        2**53, "9007199254740993", str(-(10**30)), "nan", "inf", 0.5, True,
    ]  # fmt: skip


def nested(depth: int, inner: object = "x") -> object:
    for _ in range(depth):
        inner = [inner]
    return inner


def test_only_deeply_nested_data_is_shortened(answered_run: Recording) -> None:
    records = [dict(record) for record in answered_run.records]
    place = next(index for index, record in enumerate(records) if record["event"] == "moved")
    records[0]["input"] = nested(100_000)
    records[place]["value"] = {"deep": nested(900), "shallow": nested(20)}
    shown = read_compact(data_in(draw_page(Recording(records)))["records"])
    assert shown[place]["value"]["shallow"] == nested(20)
    assert "…" in json.dumps(shown[place]["value"]["deep"], ensure_ascii=False)
    assert [*shown[1:place], *shown[place + 1 :]] == [*records[1:place], *records[place + 1 :]]


def test_non_json_values_are_shown_as_repr() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        __str__ = __repr__

    record: Record = {"event": "x", "odd": Odd(), "long": 10**6000, "set": {1}, "names": {1: 2, None: 3}}
    shown = json.loads(record_json(record))
    assert shown["odd"] == "<Odd that cannot be shown>"
    assert int(shown["long"], 16) == 10**6000
    assert (shown["set"], shown["names"]) == ([1], {"1": 2, "null": 3})


# What can be seen in the browser.


def text(one: Opened, selector: str) -> str:
    return one.page.locator(selector).inner_text()


def heading(one: Opened) -> str:
    return text(one, "#detail h2")


def lit(one: Opened) -> tuple[list[str | None], list[str]]:
    """Return the current nodes, and the titles of the current edges."""
    nodes = one.page.locator("[data-node].current").all()
    edges = one.page.locator("g.edge.now[data-edge] > title").all_text_contents()
    return [node.get_attribute("data-node") for node in nodes], edges


def press(one: Opened, *keys: str) -> None:
    for key in keys:
        one.page.keyboard.press(key)


@pytest.mark.browser
def test_page_has_the_edges_of_the_table(browser: Browser, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, html(picture_of(AGENT_EXECUTOR.verify()))) as one:
        titles = one.page.locator("g.edge[data-edge] > title").all_text_contents()
        edges = [f"{edge.source} --{edge.outcome.__name__}--> {edge.target}" for edge in AGENT_EXECUTOR.edges]
        assert sorted(titles) == sorted(edges)
        assert "Proved: every run ends" in text(one, "#header")
        assert not one.page.locator("#player").is_visible()
        assert not one.page.locator("#detail").is_visible()


@pytest.mark.browser
def test_header_shows_question_and_status(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        assert text(one, "#asked") == QUESTION
        assert text(one, "#status") == "answered"
        assert text(one, "#known") == "smollm2 · react · population, nasty"
        totals = text(one, "#totals").split("\n")
        assert dict(zip(totals[::2], totals[1::2], strict=True)).items() >= {
            ("steps", "10"), ("model calls", "3"), ("tool calls", "2"), ("tokens", "75"),
        }  # fmt: skip
        assert heading(one) == "answered"
        assert "248769 people live in Porto." in text(one, "#detail .part.answer")
        assert lit(one)[0] == ["END"]


@pytest.mark.browser
def test_keys_select_steps(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        press(one, "Home")
        assert heading(one) == "start"
        assert QUESTION in text(one, "#detail")
        press(one, "ArrowRight")
        assert heading(one) == "plan"
        assert lit(one) == (["plan"], ["plan --Replied--> parse"])
        press(one, "j")
        assert lit(one) == (["parse"], ["parse --Acted--> dispatch_tools"])
        press(one, "k")
        assert text(one, "#position") == "1 / 10"
        press(one, "ArrowLeft", "ArrowLeft")
        assert text(one, "#position") == "start"
        press(one, "End")
        assert text(one, "#position") == "end"
        press(one, "/")
        assert one.page.evaluate("document.activeElement.id") == "search"
        press(one, "d", "Escape")
        assert one.page.evaluate("document.activeElement.id") != "search"
        assert one.page.locator("#search").input_value() == ""
        press(one, "Home", "Space")
        # Or a later one, on a machine that has been busy for the time of a step.
        one.page.locator("#position", has_text=re.compile("^([2-9]|10) / 10$")).wait_for()
        press(one, "Space")
        assert text(one, "#play") == "play"


@pytest.mark.browser
def test_buttons_and_slider_select_steps(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        one.page.click("#first")
        assert one.page.locator("#back").is_disabled()
        one.page.click("#forward")
        one.page.click("#forward")
        assert text(one, "#position") == "2 / 10"
        one.page.click("#back")
        assert text(one, "#position") == "1 / 10"
        one.page.locator("#slider").fill("7")
        assert lit(one) == (["dispatch_tools"], ["dispatch_tools --Observed--> check_return_direct"])
        one.page.locator("#slider").press("ArrowRight")
        assert text(one, "#position") == "8 / 10"
        one.page.click("#last")
        assert one.page.locator("#forward").is_disabled()
        one.page.select_option("#speed", "50")
        one.page.click("#play")
        one.page.locator("#position", has_text="end").wait_for()
        assert text(one, "#play") == "play"
        one.page.locator("#list .row", has_text="population(Porto)").first.click()
        assert text(one, "#position") == "1 / 10"


@pytest.mark.browser
def test_edges_count_their_use_so_far(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        counts = {
            one.page.locator(f"g.edge[data-edge='{label.get_attribute('data-edge')}'] > title").text_content(): notes
            for label in one.page.locator("g.edge-label.taken").all()
            for notes in label.locator(".notes").all_text_contents()
        }
        assert counts == {
            "plan --Replied--> parse": "×3",
            "parse --Acted--> dispatch_tools": "×2",
            "parse --AgentFinish--> END": "×1",
            "dispatch_tools --Observed--> check_return_direct": "×2",
            "check_return_direct --Ready--> plan": "×2",
        }
        press(one, "Home")
        assert one.page.locator("g.taken").count() == 0
        assert one.page.locator(".notes", has_text="×").count() == 0


@pytest.mark.browser
def test_clicks_select_the_next_visit(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        node = one.page.locator("[data-node='plan']")
        seen: list[str] = []
        for _ in range(4):
            node.click()
            seen.append(text(one, "#position"))
        assert seen == ["1 / 10", "5 / 10", "9 / 10", "1 / 10"]
        observed = next(n for n, arrow in enumerate(answered_run.machine.arrows) if arrow.outcome == "Observed")
        one.page.locator(f"g.edge-label[data-edge='{observed}']").click()
        assert text(one, "#position") == "3 / 10"
        one.page.locator("[data-node='parse']").focus()
        press(one, "Enter")
        assert text(one, "#position") == "6 / 10"


@pytest.mark.browser
def test_step_shows_prompt_reply_and_usage(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        one.page.locator("#slider").fill("5")
        asked = one.page.locator("#detail .part.model")
        prompts = [
            effect["prompt"]["messages"][0]["content"]
            for record in answered_run.records
            if record["event"] == "asked"
            for effect in record["effects"]
            if "prompt" in effect
        ]
        assert asked.locator("pre").all_text_contents() == [prompts[1]]
        asked.locator(".prompt summary").click()
        asked.locator("pre").nth(1).wait_for()
        kept = asked.locator("pre").first.text_content()
        assert prompts[0] == kept
        assert HARM in text(one, "#detail .part.reply pre")
        assert "20 + 5 tokens" in text(one, "#detail .part.reply h3")
        bars = [" ".join(bar.inner_text().split()) for bar in one.page.locator("#detail .bar").all()]
        assert bars[:4] == ["iterations 2 of 15", "model calls 2", "tool calls 1", "tokens 50 of 4,000"]
        meter = one.page.locator("#detail [role=meter]").first
        assert (meter.get_attribute("aria-valuenow"), meter.get_attribute("aria-valuemax")) == ("2", "15")
        assert text(one, "#detail .leads") == "Replied → parse"


@pytest.mark.browser
def test_concurrent_calls_have_their_own_bars(browser: Browser, tmp_path: Path) -> None:
    calls = [(CallTool(name, "x"), ToolResult(name), seconds) for name, seconds in (("quick", 0.02), ("slow", 0.5))]
    events = asked_together(*calls)
    slowest = events[-1]
    assert isinstance(slowest, Answered)
    assert slowest.call is not None
    slowest.call.charged = {"model_calls": 3}
    with page_of(browser, tmp_path, draw_page(recording_with(*events))) as one:
        one.page.locator("#slider").fill("1")
        assert one.page.locator("[data-position='1'] .took").inner_text() == "0.50 s"
        together = one.page.locator("#detail .together .bar")
        assert [" ".join(bar.inner_text().split()) for bar in together.all()] == ["quick(x) 20 ms", "slow(x) 0.50 s"]
        quick, slow = (bar.bounding_box() for bar in together.locator(".track span").all())
        assert quick
        assert slow
        assert quick["width"] == pytest.approx(slow["width"] * 0.04, abs=1)
        shown = [heading.inner_text() for heading in one.page.locator("#detail .part h3").all()]
        assert [line.split("\n") for line in shown[1:]] == [
            ["2 CALLS AT ONCE", "0.50 s"],
            ["CALLED"],
            ["OBSERVATION", "quick · ok · 20 ms"],
            ["CALLED"],
            ["OBSERVATION", "slow · ok · 0.50 s · nested runs: 3 model calls"],
        ]
        assert "quick, slow" in text(one, "[data-position='1'] .gist")


@pytest.mark.browser
def test_prompts_are_rebuilt_by_code_points(browser: Browser, tmp_path: Path) -> None:
    replies_given = "\U0001f389\U0001f389 Look.\nAction: population\nAction Input: Porto"
    recording = record(react(replies_given, replies_given, FINAL), "\U0001f30d" * 3)
    with page_of(browser, tmp_path, draw_page(recording)) as one:
        one.page.locator("#slider").fill("9")
        asked = one.page.locator("#detail .part.model")
        asked.locator(".prompt summary").click()
        asked.locator("pre").nth(1).wait_for()
        earlier, new = asked.locator("pre").all_text_contents()
        assert earlier.count("\U0001f30d") == 3
        assert (earlier + new).count(replies_given) == 2
        assert "\ufffd" not in earlier + new


@pytest.mark.browser
def test_hostile_observation_is_shown_as_text(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        before = one.page.locator("script, img").count()
        one.page.locator("#slider").fill("7")
        shown = one.page.locator("#detail .part.reply pre").text_content()
        assert shown is not None
        assert shown.startswith(
            HOSTILE.replace("\u202e", "⟨U+202E⟩").replace("\u202c", "⟨U+202C⟩").replace("\x1b", "␛")
        )
        assert len(shown) < MEGABYTE / 100
        one.page.get_by_role("button", name="show all (1,048,576 characters)").click()
        shown = one.page.locator("#detail .part.reply pre").text_content()
        assert shown is not None
        assert len(shown) > MEGABYTE
        assert one.page.locator("#detail .part.tools pre").text_content() == "<b>now</b>"
        assert one.page.locator("script, img").count() == before
        assert one.page.title() == QUESTION
        press(one, "ArrowLeft", "ArrowRight")
        shown = one.page.locator("#detail .part.reply pre").text_content()
        assert shown is not None
        assert len(shown) > MEGABYTE


@pytest.mark.browser
def test_right_to_left_text_is_isolated(browser: Browser, tmp_path: Path) -> None:
    hebrew = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd?"
    with page_of(browser, tmp_path, draw_page(record(react(FINAL), hebrew))) as one:
        press(one, "Home")
        styles = one.page.locator("#detail pre").evaluate(
            "e => [getComputedStyle(e).direction, getComputedStyle(e).unicodeBidi]"
        )
        assert styles == ["rtl", "plaintext"]
        assert one.page.evaluate("getComputedStyle(document.body).direction") == "ltr"


@pytest.mark.browser
def test_search_covers_prompts_replies_observations_and_outcomes(
    browser: Browser, answered_run: Recording, tmp_path: Path
) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:

        def matches(words: str) -> list[str | None]:
            one.page.fill("#search", words)
            return [row.get_attribute("data-position") for row in one.page.locator("#list .row").all()]

        press(one, "Home")
        assert matches("At your Disposal") == ["1"]
        assert matches("let me look it up") == ["1", "2", "5"]
        assert "3" in matches("248769")
        assert matches("CHECK_RETURN_DIRECT") == ["3", "4", "7", "8"]
        assert text(one, "#matches") == "4"
        press(one, "Enter")
        assert text(one, "#position") == "3 / 10"
        assert text(one, "#matches") == "1 of 4"
        press(one, "Enter", "Shift+Enter", "Shift+Enter")
        assert text(one, "#position") == "8 / 10"
        assert matches("Action Input: Porto")[0] == "1"
        assert matches("(.*") == []
        assert text(one, "#matches") == "no match"
        press(one, "Escape")
        assert one.page.locator("#list .row[data-position='8']").count() == 1


@pytest.mark.browser
def test_search_matches_are_marked(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        one.page.locator("#slider").fill("7")
        one.page.fill("#search", "</SCRIPT>")
        assert one.page.locator("#detail .part.reply mark").all_text_contents() == ["</script>"]
        one.page.fill("#search", "")
        assert one.page.locator("mark").count() == 0


@pytest.mark.browser
def test_theme_follows_the_system_until_chosen(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    def colours(one: Opened) -> list[str]:
        body = "getComputedStyle(document.body).backgroundColor"
        node = "getComputedStyle(document.querySelector('[data-node=parse] .outline')).fill"
        matches: list[str] = one.page.evaluate(f"[{body}, {node}]")
        return matches

    dark, light = ["rgb(16, 22, 29)", "rgb(22, 30, 39)"], ["rgb(255, 255, 255)", "rgb(255, 255, 255)"]
    with page_of(browser, tmp_path, draw_page(answered_run), dark=True) as one:
        assert colours(one) == dark
        one.page.emulate_media(color_scheme="light")
        one.page.locator(":root[data-theme=light]").wait_for(state="attached")
        assert colours(one) == light
        press(one, "d")
        assert colours(one) == dark
        one.page.click("#theme")
        assert colours(one) == light
        one.page.emulate_media(color_scheme="dark")
        wait_for_drawing(one.page)
        assert colours(one) == light


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 390, 800, 1000])
def test_narrow_screens_need_no_horizontal_scrolling(
    browser: Browser, answered_run: Recording, tmp_path: Path, width: int
) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run), width=width) as one:
        for position in range(12):
            one.page.locator("#slider").fill(str(position))
            wide = one.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"step {position} is {wide} wide"


@pytest.mark.browser
def test_limits_and_errors_are_described(browser: Browser, tmp_path: Path) -> None:
    stopped = record(react(LOOK_UP, iterations=2, repeat=True), QUESTION)
    with page_of(browser, tmp_path, draw_page(stopped)) as one:
        assert text(one, "#status") == "stopped by iterations"
        assert "The limit of 2 iterations was reached (2 spent)." in text(one, "#detail")
        press(one, "ArrowLeft", "ArrowLeft")
        assert lit(one) == (["plan"], ["plan --LimitReached--> stopped_response"])
    failed = record(react(LOOK_UP, RuntimeError("<b>the server hung up</b>")), QUESTION)
    with page_of(browser, tmp_path, draw_page(failed)) as one:
        assert text(one, "#status") == "error"
        assert "<b>the server hung up</b>" in text(one, "#detail .part.failed")
        assert lit(one) == (["plan"], [])
        press(one, "ArrowLeft")
        assert "The run ended here." in text(one, "#detail")


@pytest.mark.browser
def test_message_prompts_are_rebuilt(browser: Browser, tmp_path: Path) -> None:
    replies: list[ScriptedReply] = [
        [ToolCall("a", "population", '{"city": "Porto"}'), ToolCall("b", "nasty", '{"query": "\U0001f389"}')],
        "248769 \U0001f389",
    ]
    model = ScriptedModel(replies)
    executor = AgentExecutor(agent=create_tool_calling_agent(model, TOOLS), tools=TOOLS)
    with page_of(browser, tmp_path, draw_page(record(executor, QUESTION))) as one:
        one.page.locator("#slider").fill("3")
        assert one.page.locator("#detail .part.tools .tool").all_text_contents() == ["population", "nasty"]
        one.page.locator("#slider").fill("5")
        asked = one.page.locator("#detail .part.model")
        roles = [role.split(" ")[0] for role in asked.locator(".message.new .role").all_text_contents()]
        assert roles == ["assistant", "tool", "tool"]
        asked.locator(".prompt summary").click()
        kept = asked.locator(".message:not(.new)")
        kept.first.wait_for()
        assert kept.locator(".role b").all_text_contents() == ["system", "user"]
        assert kept.last.locator("pre").text_content() == QUESTION


@pytest.mark.browser
def test_thousand_steps_open_within_a_second(browser: Browser, tmp_path: Path) -> None:
    recording = record(react(LOOK_UP, iterations=1000, tokens=None, repeat=True), QUESTION)
    assert len(recording.records) > 12_000
    shown = draw_page(recording)
    # The time is the page's own, to which a busy machine only adds: the fastest of several openings is nearest to it.
    times: list[float] = []
    while len(times) < OPENINGS and min(times, default=SOON) >= SOON:
        with page_of(browser, tmp_path, shown) as one:
            times.append(one.page.evaluate("performance.getEntriesByName('usable')[0].startTime"))
    assert min(times) < SOON, times
    with page_of(browser, tmp_path, shown) as one:
        assert text(one, "#status") == "stopped by iterations"
        assert one.page.locator("#list .row").count() < 60
        press(one, "ArrowLeft", "ArrowLeft")
        assert lit(one) == (["plan"], ["plan --LimitReached--> stopped_response"])
        one.page.fill("#search", "LimitReached")
        assert text(one, "#matches") == "1 of 1"


@pytest.mark.browser
def test_notices_own_budgets_and_incomplete_records_are_shown(
    browser: Browser, answered_run: Recording, tmp_path: Path
) -> None:
    *records, _ = [dict(record) for record in answered_run.records]
    records[0]["limits"] = {**records[0]["limits"], "budgets": {"<b>tries</b>": 4}}
    for record in records:
        if "spent" in record:
            record["spent"] = {**record["spent"], "cost": 0.25, "budgets": {"<b>tries</b>": 3}}
    notice: Record = {
        "event": "reported",
        "node": "parse",
        "effects": [],
        "news": "SummaryFailed",
        "text": "<i>no\x07 summary</i>",
    }
    with page_of(browser, tmp_path, draw_page(Recording([*records, notice]))) as one:
        assert text(one, "#status") == "not finished"
        assert text(one, "#position") == "10 / 10"
        assert text(one, "#detail .part.notice pre") == "<i>no␇ summary</i>"
        bars = [" ".join(bar.inner_text().split()) for bar in one.page.locator("#detail .bar").all()]
        assert bars[-2:] == ["cost 0.25", "<b>tries</b> 3 of 4"]
    with page_of(browser, tmp_path, draw_page(Recording(records[:9]))) as one:
        assert lit(one) == (["dispatch_tools"], [])
        assert "The records end here." in text(one, "#detail")


@pytest.mark.browser
def test_hostile_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    names = tuple(
        name for name in TEXTS if name and name.encode("utf-8", "replace").decode() == name and "\x00" not in name
    )
    picture = dataclasses.replace(ring(names, names), caption=names)
    with page_of(browser, tmp_path, html(picture)) as one:
        titles = one.page.locator("g.edge[data-edge] > title").all_text_contents()
        assert len(titles) == len(picture.arrows)
        assert f"{names[0]} --Next--> {names[1]}" in titles
        assert names[0] in text(one, "#asked")
        assert one.page.locator("#proof").text_content() == " ".join(names).replace("\r\n", "\n").replace(
            "\u202e", "⟨U+202E⟩"
        )


@pytest.mark.browser
def test_large_machine_opens_at_readable_size(browser: Browser, tmp_path: Path) -> None:
    names = tuple(f"graph{number // 6}.node_{number}" for number in range(40))
    with page_of(browser, tmp_path, html(ring(names))) as one:

        def height(name: str) -> float:
            box = one.page.locator(f"[data-node='{name}'] text").first.bounding_box()
            assert box is not None
            return box["height"]

        assert height(names[0]) > 10
        one.page.click("#fit")
        assert height(names[0]) < 10
        one.page.click("#zoom-in")
        small = height(names[0])
        one.page.click("#zoom-out")
        assert height(names[0]) < small


@pytest.mark.browser
def test_input_links_to_the_step_before(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(answered_run)) as one:
        one.page.locator("#slider").fill("2")
        given = one.page.locator("#detail .part", has_text="Replied from plan, step 1")
        given.locator("a").click()
        assert text(one, "#position") == "1 / 10"
        assert one.page.locator("#detail .part.reply pre").first.text_content() == LOOK_UP


@pytest.mark.browser
def test_durations_are_formatted_as_in_other_pictures(browser: Browser, tmp_path: Path) -> None:
    seconds = [0.0, 0.000013, 0.00099, 0.001, 0.035, 0.0994, 0.1, 4.284, 9.99, 10.4, 119.6, 4321.0]
    run = record(react(*[LOOK_UP] * (len(seconds) - 1), FINAL), QUESTION)
    records = [dict(record) for record in run.records]
    answers = [one for one in records if (one["event"], one.get("node")) == ("answered", "plan")]
    for answer, took in zip(answers, seconds, strict=True):
        answer["replies"] = [{**answer["replies"][0], "seconds": took}]
    with page_of(browser, tmp_path, draw_page(Recording(records))) as one:
        for index, took in enumerate(seconds):
            # An iteration has four steps.
            position = 1 + 4 * index
            one.page.locator("#slider").fill(str(position))
            shown = one.page.locator(f".row[data-position='{position}'] .took").inner_text()
            assert (heading(one), shown) == ("plan", format_duration(took))


@pytest.mark.browser
def test_resetting_edges_do_not_stop_numbering(browser: Browser, tmp_path: Path) -> None:
    with page_of(browser, tmp_path, draw_page(three_entries())) as one:
        assert one.page.locator("#list .number").all_text_contents() == ["", "1", "2", "3", ""]
        one.page.locator("#slider").fill("3")
        assert "step 3 · iteration 3" in text(one, "#detail .where")


@pytest.mark.browser
def test_iterations_are_numbered_as_in_the_timeline(browser: Browser, answered_run: Recording, tmp_path: Path) -> None:
    stopped = record(react(LOOK_UP, iterations=2, repeat=True), QUESTION)
    broken = record(react(LOOK_UP, RuntimeError("oh")), QUESTION)
    for recording in (answered_run, stopped, broken, Recording(answered_run.records[:19])):
        with page_of(browser, tmp_path, draw_page(recording)) as one:
            shown = one.page.locator('[aria-level="1"] .number').all_text_contents()
            found = [visit.iteration for visit in visits_of(recording) if visit.iteration is not None]
            ends = [number.split("–") for number in shown if number]
            assert [
                at for first, *last in ends for at in range(int(first), int(last[0] if last else first) + 1)
            ] == found


# ---- live runs


class Stream:
    """A server of a page and its event stream, with the parts that each connection receives.

    `asked` are the last event ids that the connections sent.
    """

    def __init__(self, page: str, connections: Iterable[Iterable[str]]) -> None:
        asked: list[str | None] = []
        waiting = iter(connections)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                events = self.path == "/events"
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream" if events else "text/html; charset=utf-8")
                self.end_headers()
                if events:
                    asked.append(self.headers["Last-Event-ID"])
                for part in next(waiting, ()) if events else [page]:
                    self.wfile.write(part.encode())
                    self.wfile.flush()

            # The name of its parameter is the base class's.
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Print nothing."""

        self.asked = asked
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def stream_records(recording: Recording, first: int, end: int | None = None) -> list[str]:
    """Return records as server-sent events; the page reconnects immediately."""
    records = list(enumerate(recording.records))[first:end]
    return ["retry: 1\n\n", *(f"id: {index}\ndata: {record_json(record)}\n\n" for index, record in records)]


@pytest.mark.browser
def test_live_page_reads_each_record_once(browser: Browser, answered_run: Recording) -> None:
    so_far = Recording(answered_run.records[:7])
    page = html(answered_run.machine, so_far, live="events")
    connections = [stream_records(answered_run, 0, 20), [*stream_records(answered_run, 20), "event: end\ndata:\n\n"]]
    with Stream(page, connections) as stream, open_page(browser, stream.address) as one:
        one.page.locator("#connection", has_text="ended").wait_for()
        one.page.locator("#position", has_text="end").wait_for()
        assert stream.asked == [None, "19"]
        assert text(one, "#status") == "answered"
        assert one.page.locator("#slider").get_attribute("max") == "11"
        assert heading(one) == "answered"
        assert set(one.requests) == {stream.address, f"{stream.address}events"}
        assert one.faults == []


@pytest.mark.browser
def test_live_page_follows_until_the_reader_moves(browser: Browser, answered_run: Recording) -> None:
    page = html(answered_run.machine, Recording(answered_run.records[:11]), live="events")
    parts: SimpleQueue[str] = SimpleQueue()
    with Stream(page, [iter(parts.get, "")]) as stream, open_page(browser, stream.address) as one:
        assert text(one, "#status") == "running"
        assert text(one, "#position") == "3 / 3"
        press(one, "ArrowLeft")
        parts.put("".join(stream_records(answered_run, 0, 13)))
        one.page.locator("#position", has_text="2 / 4").wait_for()
        assert text(one, "#connection") == "live"
        press(one, "End")
        parts.put("".join(stream_records(answered_run, 13, 17)))
        one.page.locator("#position", has_text="5 / 5").wait_for()
        assert heading(one) == "plan"
        parts.put("")


@pytest.mark.browser
def test_source_errors_are_shown(browser: Browser, answered_run: Recording) -> None:
    page = html(answered_run.machine, Recording(answered_run.records[:1]), live="events")
    connection = [*stream_records(answered_run, 1, 9), "event: end\ndata: line 9 of <b>it</b> is not a record\n\n"]
    with Stream(page, [connection]) as stream, open_page(browser, stream.address) as one:
        one.page.locator("#connection", has_text="ended").wait_for()
        assert text(one, "#fault") == "line 9 of <b>it</b> is not a record"
        assert text(one, "#status") == "incomplete"
        assert "The records end here." in text(one, "#detail")
        assert one.faults == []


@pytest.mark.browser
def test_selection_survives_new_records(browser: Browser, answered_run: Recording) -> None:
    page = html(answered_run.machine, Recording(answered_run.records[:11]), live="events")
    parts: SimpleQueue[str] = SimpleQueue()
    with Stream(page, [iter(parts.get, "")]) as stream, open_page(browser, stream.address) as one:
        press(one, "Home", "ArrowRight")
        one.page.evaluate("getSelection().selectAllChildren(document.querySelector('#detail .part.reply pre'))")
        parts.put("".join(stream_records(answered_run, 0, 17)))
        one.page.locator("#position", has_text="1 / 5").wait_for()
        assert one.page.evaluate("getSelection().toString()") == LOOK_UP
        parts.put("")


@pytest.mark.browser
def test_streamed_reply_is_shown(browser: Browser) -> None:
    recorder = Recorder(AGENT_EXECUTOR, inputs=QUESTION)
    executor = react(FINAL)
    for event in executor.stream(QUESTION):
        recorder(event)
        if isinstance(event, Asked):
            for piece in ("I now <b>", "know", "</b>"):
                recorder(Reported(event.node, event.effect, ReplyDelta(piece)))
            break
    page = html(recorder.recording.machine, recorder.recording, live="events")
    with Stream(page, []) as stream, open_page(browser, stream.address) as one:
        assert text(one, "#detail .part.reply pre") == "I now <b>know</b>"
        assert "Waiting" in text(one, "#detail")


@pytest.mark.browser
def test_live_page_may_start_empty(browser: Browser, answered_run: Recording) -> None:
    connection = [*stream_records(answered_run, 0), "event: end\ndata:\n\n"]
    with (
        Stream(html(answered_run.machine, live="events"), [connection]) as stream,
        open_page(browser, stream.address) as one,
    ):
        one.page.locator("#status", has_text="answered").wait_for()
        one.page.locator("#position", has_text="end").wait_for()
        assert text(one, "#asked") == QUESTION
        counts = one.page.locator(".notes", has_text="×").all_text_contents()
        assert sorted(counts) == ["×1", "×2", "×2", "×2", "×3"]
