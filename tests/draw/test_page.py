"""The HTML page: its content, and its behaviour in a browser."""

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest

import graphexec as gx
from graphexec.draw import Recorder, Recording, picture_of
from graphexec.draw.model.text import format_duration
from graphexec.draw.page import html, record_json
from graphexec.draw.runs.data import Record
from graphexec.effects import CallTool, ToolResult
from graphexec.executor import AGENT_EXECUTOR
from graphexec.messages import ModelReply, ToolCall, ToolSpec, Usage
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool
from tests.draw.browser import Browser, Page, Pages, box_of, open_page, page_of, press, shown, wait_for_drawing, where
from tests.draw.machines import HOSTILE as TEXTS
from tests.draw.machines import ring
from tests.draw.recorded import asked_and_answered, asked_together, nested, record_events, three_entries
from tests.executor.actors import caller_of
from tests.parameters import cases, mark_except
from tests.traces import unpack_records

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")

QUESTION = "How many people live in Porto?"
HOSTILE = (
    """<script>document.title = "ran"; alert(1)</script><img src=x onerror=alert(2)> "quotes" 'single' & </pre> """
    "\u05e9\u05dc\u05d5\u05dd \u202eturned\u202c \U0001f389 \x1b[31m"
)
MEGABYTE = 1_048_576
# Milliseconds in which the page of a thousand iterations opens, and how often it may be opened for that.
SOON, OPENINGS = 1000, 8


@gx.tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    return {"Porto": 248_769}[city]


@gx.tool
def nasty(query: str) -> str:
    """Return hostile text and a megabyte."""
    return HOSTILE + "x" * (MEGABYTE - len(HOSTILE))


TOOLS: list[AnyTool] = [population, nasty]


def record(executor: gx.AgentExecutor, asked: str, **known: Any) -> Recording:
    """Record a run, including one that fails."""
    recorder = Recorder(executor.verify(), inputs=asked, **known)
    try:
        for event in executor.stream(asked):
            recorder(event)
    except RuntimeError as error:
        recorder.failed(error)
    return recorder.recording


def react(
    *replies: str | BaseException, iterations: int = 15, tokens: int | None = 4000, repeat: bool = False
) -> gx.AgentExecutor:
    replies_given = [ModelReply(one, (), Usage(20, 5)) if isinstance(one, str) else one for one in replies]
    agent = gx.create_react_agent(ScriptedModel(replies_given, repeat_last=repeat), TOOLS)
    return gx.AgentExecutor(agent=agent, tools=TOOLS, max_iterations=iterations, max_tokens=tokens)


LOOK_UP = "Let me look it up.\nAction: population\nAction Input: Porto"
HARM = "Hm.\nAction: nasty\nAction Input: <b>now</b>"
FINAL = "I now know the final answer\nFinal Answer: 248769 people live in Porto."


def stopped_run() -> Recording:
    return record(react(LOOK_UP, iterations=2, repeat=True), QUESTION)


@pytest.fixture(scope="module")
def answered_run() -> Recording:
    tools = [ToolSpec("population", "", {}), ToolSpec("nasty", "", {})]
    return record(react(LOOK_UP, HARM, FINAL), QUESTION, model="smollm2", agent="react", tools=tools)


@pytest.fixture
def page(pages: Pages, answered_run: Recording) -> Page:
    return pages.run(answered_run)


def data_text(page: str) -> str:
    [found] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    return str(found)


@pytest.mark.medium
def test_data_are_the_records_in_their_own_script_element(answered_run: Recording) -> None:
    page = page_of(answered_run)
    data = json.loads(data_text(page))
    assert unpack_records(data["records"]) == list(answered_run.records)
    assert (data["picture"], data["live"]) == (answered_run.machine.to_data(), None)
    # No text of a run can end the element.
    assert (page.count("<script"), page.count("</script>")) == (2, 2)
    assert data_text(page).isascii()
    assert not set("<>&") & set(data_text(page))


@pytest.mark.medium
def test_policy_allows_only_the_page_script_and_style(answered_run: Recording) -> None:
    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    page = page_of(answered_run)
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    [script] = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    [css] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy == (
        f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(css)}; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    assert "connect-src 'self'" in html(answered_run.machine, live="events")


@pytest.mark.medium
def test_page_is_escaped_and_names_no_address() -> None:
    page = page_of(record(react(FINAL), "</title><script>\x00\n\u202e" + "long " * 40))
    [title] = re.findall(r"<title>(.*?)</title>\n<link", page, re.DOTALL)
    assert title.startswith("&lt;/title&gt;&lt;script&gt;")
    assert title.endswith("…")
    assert title.replace(" ", "").isprintable()
    # But for namespaces.
    page = html(picture_of(AGENT_EXECUTOR))
    assert set(re.findall(r"https?:[^\s\"'<>]+", page)) == {"http://www.w3.org/2000/svg"}


def test_only_deeply_nested_data_is_shortened(answered_run: Recording) -> None:
    records = [dict(record) for record in answered_run.records]
    place = next(index for index, record in enumerate(records) if record["event"] == "moved")
    records[0]["input"] = nested(100_000, "x")
    records[place]["value"] = {"deep": nested(900, "x"), "shallow": nested(20, "x")}
    read = unpack_records(json.loads(data_text(page_of(Recording(records))))["records"])
    assert read[place]["value"]["shallow"] == nested(20, "x")
    assert "…" in json.dumps(read[place]["value"]["deep"], ensure_ascii=False)
    assert [*read[1:place], *read[place + 1 :]] == [*records[1:place], *records[place + 1 :]]


# Numbers outside the range of JavaScript's are strings.
@cases(
    "value, written",
    *((number, number) for number in (2**53, 0.5, True)),
    *((number, str(number)) for number in (2**53 + 1, -(10**30), float("nan"), float("inf"))),
    (10**6000, hex(10**6000)),
)
def test_values_are_written_as_json(value: object, written: object) -> None:
    record: Record = {"event": "x", "value": value}
    assert json.loads(record_json(record))["value"] == written


def heading(page: Page) -> str:
    return shown(page, "#detail h2")


def bars_of(page: Page, selector: str) -> list[str]:
    return [" ".join(bar.inner_text().split()) for bar in page.locator(selector).all()]


def lit(page: Page) -> tuple[list[str | None], list[str]]:
    """Return the current nodes, and the titles of the current edges."""
    nodes = page.locator("[data-node].current").all()
    edges = page.locator("g.edge.now[data-edge] > title").all_text_contents()
    return [node.get_attribute("data-node") for node in nodes], edges


def test_page_has_the_edges_of_the_table(pages: Pages) -> None:
    page = pages.text(html(picture_of(AGENT_EXECUTOR.verify())))
    titles = page.locator("g.edge[data-edge] > title").all_text_contents()
    edges = [f"{edge.source} --{edge.outcome.__name__}--> {edge.target}" for edge in AGENT_EXECUTOR.edges]
    assert sorted(titles) == sorted(edges)
    assert "Proved: every run ends" in shown(page, "#header")
    assert not page.locator("#player").is_visible()
    assert not page.locator("#detail").is_visible()


def test_header_and_edges_show_the_answered_run(page: Page) -> None:
    known = {"#asked": QUESTION, "#status": "answered", "#known": "smollm2 · react · population, nasty"}
    assert {selector: shown(page, selector) for selector in known} == known
    totals = shown(page, "#totals").split("\n")
    assert dict(zip(totals[::2], totals[1::2], strict=True)).items() >= {
        ("steps", "10"), ("model calls", "3"), ("tool calls", "2"), ("tokens", "75"),
    }  # fmt: skip
    assert heading(page) == "answered"
    assert "248769 people live in Porto." in shown(page, "#detail .part.answer")
    assert lit(page)[0] == ["END"]
    # Edges count their use so far.
    counts = {
        page.locator(f"g.edge[data-edge='{label.get_attribute('data-edge')}'] > title").text_content(): notes
        for label in page.locator("g.edge-label.taken").all()
        for notes in label.locator(".notes").all_text_contents()
    }
    assert counts == {
        "plan --Replied--> parse": "×3",
        "parse --Acted--> dispatch_tools": "×2",
        "parse --AgentFinish--> END": "×1",
        "dispatch_tools --Observed--> check_return_direct": "×2",
        "check_return_direct --Ready--> plan": "×2",
    }
    press(page, "Home")
    assert page.locator("g.taken").count() == 0
    assert page.locator(".notes", has_text="×").count() == 0


def test_keys_select_steps(page: Page) -> None:
    press(page, "Home")
    assert heading(page) == "start"
    assert QUESTION in shown(page, "#detail")
    press(page, "ArrowRight")
    assert heading(page) == "plan"
    assert lit(page) == (["plan"], ["plan --Replied--> parse"])
    press(page, "j")
    assert lit(page) == (["parse"], ["parse --Acted--> dispatch_tools"])
    press(page, "/", "d", "Escape")
    assert page.locator("#search").input_value() == ""
    press(page, "Home", "Space")
    # Or a later one, on a machine that has been busy for the time of a step.
    page.locator("#position", has_text=re.compile("^([2-9]|10) / 10$")).wait_for()


def test_pointer_selects_steps(page: Page, answered_run: Recording) -> None:
    page.click("#first")
    assert page.locator("#back").is_disabled()
    for button, position in (("#forward", "1 / 10"), ("#forward", "2 / 10"), ("#back", "1 / 10")):
        page.click(button)
        assert where(page) == position
    page.locator("#slider").fill("7")
    assert lit(page) == (["dispatch_tools"], ["dispatch_tools --Observed--> check_return_direct"])
    page.locator("#slider").press("ArrowRight")
    assert where(page) == "8 / 10"
    page.click("#last")
    assert page.locator("#forward").is_disabled()
    page.select_option("#speed", "50")
    page.click("#play")
    page.locator("#position", has_text="end").wait_for()
    assert shown(page, "#play") == "play"
    page.locator("#list .row", has_text="population(Porto)").first.click()
    assert where(page) == "1 / 10"
    # A click in the drawing selects the next visit.
    for position in ("5 / 10", "9 / 10", "1 / 10"):
        page.locator("[data-node='plan']").click()
        assert where(page) == position
    observed = next(n for n, arrow in enumerate(answered_run.machine.arrows) if arrow.outcome == "Observed")
    page.locator(f"g.edge-label[data-edge='{observed}']").click()
    assert where(page) == "3 / 10"
    page.locator("[data-node='parse']").focus()
    press(page, "Enter")
    assert where(page) == "6 / 10"
    # The input of a step links to the step before.
    page.locator("#slider").fill("2")
    page.locator("#detail .part", has_text="Replied from plan, step 1").locator("a").click()
    assert where(page) == "1 / 10"
    assert page.locator("#detail .part.reply pre").first.text_content() == LOOK_UP


def test_step_shows_prompt_reply_and_usage(page: Page, answered_run: Recording) -> None:
    page.locator("#slider").fill("5")
    asked = page.locator("#detail .part.model")
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
    assert asked.locator("pre").first.text_content() == prompts[0]
    assert HARM in shown(page, "#detail .part.reply pre")
    assert "20 + 5 tokens" in shown(page, "#detail .part.reply h3")
    bars = ["iterations 2 of 15", "model calls 2", "tool calls 1", "tokens 50 of 4,000"]
    assert bars_of(page, "#detail .bar")[:4] == bars
    meter = page.locator("#detail [role=meter]").first
    assert (meter.get_attribute("aria-valuenow"), meter.get_attribute("aria-valuemax")) == ("2", "15")
    assert shown(page, "#detail .leads") == "Replied → parse"


def test_concurrent_calls_have_their_own_bars(pages: Pages) -> None:
    calls = [(CallTool(name, "x"), ToolResult(name), seconds) for name, seconds in (("quick", 0.02), ("slow", 0.5))]
    events = asked_together(*calls)
    slowest = events[-1]
    assert isinstance(slowest, gx.Answered)
    assert slowest.call is not None
    slowest.call.charged = {"model_calls": 3}
    page = pages.run(record_events(*events))
    page.locator("#slider").fill("1")
    assert shown(page, "[data-position='1'] .took") == "0.50 s"
    assert bars_of(page, "#detail .together .bar") == ["quick(x) 20 ms", "slow(x) 0.50 s"]
    quick, slow = map(box_of, page.locator("#detail .together .bar .track span").all())
    assert quick["width"] == pytest.approx(slow["width"] * 0.04, abs=1)
    headings = page.locator("#detail .part h3").all_inner_texts()
    assert [line.split("\n") for line in headings[1:]] == [
        ["2 CALLS AT ONCE", "0.50 s"],
        ["CALLED"],
        ["OBSERVATION", "quick · ok · 20 ms"],
        ["CALLED"],
        ["OBSERVATION", "slow · ok · 0.50 s · nested runs: 3 model calls"],
    ]
    assert "quick, slow" in shown(page, "[data-position='1'] .gist")


def test_prompts_are_rebuilt(pages: Pages) -> None:
    reply = "\U0001f389\U0001f389 Look.\nAction: population\nAction Input: Porto"
    page = pages.run(record(react(reply, reply, FINAL), "\U0001f30d" * 3))
    page.locator("#slider").fill("9")
    asked = page.locator("#detail .part.model")
    asked.locator(".prompt summary").click()
    asked.locator("pre").nth(1).wait_for()
    earlier, new = asked.locator("pre").all_text_contents()
    assert earlier.count("\U0001f30d") == 3
    assert (earlier + new).count(reply) == 2
    assert "\ufffd" not in earlier + new
    # Those of messages are, too.
    calls = [ToolCall("a", "population", '{"city": "Porto"}'), ToolCall("b", "nasty", '{"query": "\U0001f389"}')]
    page = pages.run(record(caller_of(ScriptedModel([calls, "248769 \U0001f389"]), *TOOLS), QUESTION))
    page.locator("#slider").fill("3")
    assert page.locator("#detail .part.tools .tool").all_text_contents() == ["population", "nasty"]
    page.locator("#slider").fill("5")
    asked = page.locator("#detail .part.model")
    roles = [role.split(" ")[0] for role in asked.locator(".message.new .role").all_text_contents()]
    assert roles == ["assistant", "tool", "tool"]
    asked.locator(".prompt summary").click()
    kept = asked.locator(".message:not(.new)")
    kept.first.wait_for()
    assert kept.locator(".role b").all_text_contents() == ["system", "user"]
    assert kept.last.locator("pre").text_content() == QUESTION


def test_hostile_observation_is_shown_as_text(page: Page) -> None:
    def observation() -> str:
        return page.locator("#detail .part.reply pre").text_content() or ""

    before = page.locator("script, img").count()
    page.locator("#slider").fill("7")
    visible = HOSTILE.replace("\u202e", "⟨U+202E⟩").replace("\u202c", "⟨U+202C⟩").replace("\x1b", "␛")
    assert observation().startswith(visible)
    assert len(observation()) < MEGABYTE / 100
    page.get_by_role("button", name="show all (1,048,576 characters)").click()
    assert len(observation()) > MEGABYTE
    assert page.locator("#detail .part.tools pre").text_content() == "<b>now</b>"
    assert page.locator("script, img").count() == before
    assert page.title() == QUESTION
    press(page, "ArrowLeft", "ArrowRight")
    assert len(observation()) > MEGABYTE
    page.fill("#search", "</SCRIPT>")
    assert page.locator("#detail .part.reply mark").all_text_contents() == ["</script>"]
    page.fill("#search", "")
    assert page.locator("mark").count() == 0


def matches(page: Page, words: str) -> list[str | None]:
    page.fill("#search", words)
    return [row.get_attribute("data-position") for row in page.locator("#list .row").all()]


@cases(
    "words, positions",
    ("At your Disposal", ["1"]),
    ("let me look it up", ["1", "2", "5"]),
    ("CHECK_RETURN_DIRECT", ["3", "4", "7", "8"]),
    ("(.*", []),
)
def test_search_covers_prompts_replies_and_outcomes(page: Page, words: str, positions: list[str | None]) -> None:
    press(page, "Home")
    assert matches(page, words) == positions
    assert shown(page, "#matches") == (str(len(positions)) if positions else "no match")


def test_search_leads_to_its_matches(page: Page) -> None:
    press(page, "Home")
    assert "3" in matches(page, "248769")
    assert matches(page, "Action Input: Porto")[0] == "1"
    matches(page, "CHECK_RETURN_DIRECT")
    press(page, "Enter")
    assert (where(page), shown(page, "#matches")) == ("3 / 10", "1 of 4")
    press(page, "Enter", "Shift+Enter", "Shift+Enter")
    assert where(page) == "8 / 10"
    press(page, "Escape")
    assert page.locator("#list .row[data-position='8']").count() == 1


def test_theme_follows_the_system_until_chosen(pages: Pages, answered_run: Recording) -> None:
    page = pages.run(answered_run, scheme="dark")

    def colours() -> list[str]:
        body = "getComputedStyle(document.body).backgroundColor"
        node = "getComputedStyle(document.querySelector('[data-node=parse] .outline')).fill"
        return list(page.evaluate(f"[{body}, {node}]"))

    dark, light = ["rgb(16, 22, 29)", "rgb(22, 30, 39)"], ["rgb(255, 255, 255)", "rgb(255, 255, 255)"]
    assert colours() == dark
    page.emulate_media(color_scheme="light")
    page.locator(":root[data-theme=light]").wait_for(state="attached")
    assert colours() == light
    press(page, "d")
    assert colours() == dark
    page.click("#theme")
    assert colours() == light
    page.emulate_media(color_scheme="dark")
    wait_for_drawing(page)
    assert colours() == light


@pytest.mark.parametrize("width", mark_except([320, 390, 800, 1000], 390, mark=pytest.mark.full))
def test_narrow_screens_need_no_horizontal_scrolling(pages: Pages, answered_run: Recording, width: int) -> None:
    page = pages.run(answered_run, size=(width, 900))
    for position in range(12):
        page.locator("#slider").fill(str(position))
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"step {position} is {wide} wide"


def test_limits_errors_notices_and_incomplete_records_are_shown(pages: Pages, answered_run: Recording) -> None:
    page = pages.run(stopped_run())
    assert shown(page, "#status") == "stopped by iterations"
    assert "The limit of 2 iterations was reached (2 spent)." in shown(page, "#detail")
    press(page, "ArrowLeft", "ArrowLeft")
    assert lit(page) == (["plan"], ["plan --Stopped--> stopped_response"])
    page = pages.run(record(react(LOOK_UP, RuntimeError("<b>the server hung up</b>")), QUESTION))
    assert shown(page, "#status") == "error"
    assert "<b>the server hung up</b>" in shown(page, "#detail .part.failed")
    assert lit(page) == (["plan"], [])
    press(page, "ArrowLeft")
    assert "The run ended here." in shown(page, "#detail")
    # Notices, own budgets and incomplete records.
    *records, _ = [dict(one) for one in answered_run.records]
    records[0]["limits"] = {**records[0]["limits"], "budgets": {"<b>tries</b>": 4}}
    for one in records:
        if "spent" in one:
            one["spent"] = {**one["spent"], "cost": 0.25, "budgets": {"<b>tries</b>": 3}}
    notice: Record = {"event": "reported", "node": "parse", "effects": [], "news": "CacheFailed"}
    page = pages.run(Recording([*records, {**notice, "text": "<i>no\x07 cache</i>"}]))
    assert (shown(page, "#status"), where(page)) == ("not finished", "10 / 10")
    assert shown(page, "#detail .part.notice pre") == "<i>no␇ cache</i>"
    assert bars_of(page, "#detail .bar")[-2:] == ["cost 0.25", "<b>tries</b> 3 of 4"]
    page = pages.run(Recording(records[:9]))
    assert lit(page) == (["dispatch_tools"], [])
    assert "The records end here." in shown(page, "#detail")


@pytest.mark.full
def test_thousand_steps_open_within_a_second(pages: Pages) -> None:
    recording = record(react(LOOK_UP, iterations=1000, tokens=None, repeat=True), QUESTION)
    assert len(recording.records) > 12_000
    text = page_of(recording)
    # The time is the page's own, to which a busy machine only adds: the fastest of several openings is nearest to it.
    times: list[float] = []
    while True:
        page = pages.text(text)
        times.append(page.evaluate("performance.getEntriesByName('usable')[0].startTime"))
        if len(times) == OPENINGS or times[-1] < SOON:
            break
    assert min(times) < SOON, times
    assert shown(page, "#status") == "stopped by iterations"
    assert page.locator("#list .row").count() < 60
    press(page, "ArrowLeft", "ArrowLeft")
    assert lit(page) == (["plan"], ["plan --Stopped--> stopped_response"])
    page.fill("#search", "outcome:Stopped")
    assert shown(page, "#matches") == "1 of 1"


@pytest.mark.full
def test_hostile_texts_and_large_machines_are_shown(pages: Pages) -> None:
    names = tuple(one for one in TEXTS if one and one.encode("utf-8", "replace").decode() == one and "\x00" not in one)
    picture = dataclasses.replace(ring(names, names), caption=names)
    page = pages.text(html(picture))
    titles = page.locator("g.edge[data-edge] > title").all_text_contents()
    assert len(titles) == len(picture.arrows)
    assert f"{names[0]} --Next--> {names[1]}" in titles
    assert names[0] in shown(page, "#asked")
    proof = " ".join(names).replace("\r\n", "\n").replace("\u202e", "⟨U+202E⟩")
    assert page.locator("#proof").text_content() == proof
    # Text from right to left is isolated.
    hebrew = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd?"
    page = pages.run(record(react(FINAL), hebrew))
    press(page, "Home")
    styles = page.locator("#detail pre").evaluate(
        "e => [getComputedStyle(e).direction, getComputedStyle(e).unicodeBidi]"
    )
    assert styles == ["rtl", "plaintext"]
    assert page.evaluate("getComputedStyle(document.body).direction") == "ltr"
    # A large machine opens at a readable size.
    names = tuple(f"graph{number // 6}.node_{number}" for number in range(40))
    page = pages.text(html(ring(names)))

    def height() -> float:
        return box_of(page.locator(f"[data-node='{names[0]}'] text").first)["height"]

    assert height() > 10
    page.click("#fit")
    assert height() < 10
    page.click("#zoom-in")
    small = height()
    page.click("#zoom-out")
    assert height() < small


SECONDS = [0.0, 0.000013, 0.00099, 0.001, 0.035, 0.0994, 0.1, 4.284, 9.99, 10.4, 119.6, 4321.0]


@pytest.fixture
def timed(pages: Pages) -> Page:
    """The page of a run whose model took these times."""
    records = [dict(one) for one in record(react(*[LOOK_UP] * (len(SECONDS) - 1), FINAL), QUESTION).records]
    answers = [one for one in records if (one["event"], one.get("node")) == ("answered", "plan")]
    for answer, took in zip(answers, SECONDS, strict=True):
        answer["replies"] = [{**answer["replies"][0], "seconds": took}]
    return pages.run(Recording(records))


# An iteration has four steps.
@cases("position, took", *[(1 + 4 * index, took) for index, took in enumerate(SECONDS)])
def test_durations_are_formatted_as_in_other_pictures(timed: Page, position: int, took: float) -> None:
    timed.locator("#slider").fill(str(position))
    assert heading(timed) == "plan"
    assert shown(timed, f".row[data-position='{position}'] .took") == format_duration(took)


def test_iterations_are_numbered(pages: Pages, answered_run: Recording) -> None:
    broken = record(react(LOOK_UP, RuntimeError("oh")), QUESTION)
    for recording in (answered_run, stopped_run(), broken, Recording(answered_run.records[:19])):
        numbers = pages.run(recording).locator('[aria-level="1"] .number').all_text_contents()
        ends = [[int(end) for end in number.split("–")] for number in numbers if number]
        found = [at for first, *last in ends for at in range(first, (last or [first])[0] + 1)]
        # One is begun with each request to the model, also if it fails.
        asked = [one for one in recording.records if one["event"] == "asked" and one["node"] == "plan"]
        assert found == list(range(1, len(asked) + 1))
    # Edges that reset the budget do not stop it.
    page = pages.run(three_entries())
    assert page.locator("#list .number").all_text_contents() == ["", "1", "2", "3", ""]
    page.locator("#slider").fill("3")
    assert "step 3 · iteration 3" in shown(page, "#detail .where")


@pytest.mark.full
def test_last_visit_is_numbered_if_it_may_have_been_charged(pages: Pages) -> None:
    *records, result = three_entries().records
    for status, numbered in (("interrupted", True), ("answered", False)):
        page = pages.run(Recording([*records, {**result, "spent": records[-2]["spent"], "status": status}]))
        page.locator("#slider").fill("3")
        assert ("iteration 3" in shown(page, "#detail .where")) == numbered
    # One that is charged elsewhere has no number.
    page = pages.run(record_events(*asked_and_answered(CallTool("echo", "a"), ToolResult("b"), node="plan")))
    page.locator("#slider").fill("1")
    assert "iteration" not in shown(page, "#detail .where")


@contextmanager
def open_live(
    browser: Browser, recording: Recording, so_far: int, connections: Iterable[Iterable[str]]
) -> Generator[tuple[Page, list[str | None]]]:
    """Open the live page of a run with some records, and give each connection to its event stream the next parts.

    Yield the page, and the last event ids that the connections sent. The test fails if the page has an error, or makes
    another request.
    """
    text = html(recording.machine, Recording(recording.records[:so_far]) if so_far else None, live="events")
    waiting = iter(connections)
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            events = self.path == "/events"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if events else "text/html; charset=utf-8")
            self.end_headers()
            if events:
                asked.append(self.headers["Last-Event-ID"])
            for part in next(waiting, ()) if events else [text]:
                self.wfile.write(part.encode())
                self.wfile.flush()

        # The name of its parameter is the base class's.
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        try:
            with open_page(browser, address) as one:
                yield one.page, asked
                assert set(one.requests) == {address, f"{address}events"}
                assert one.faults == []
        finally:
            server.shutdown()


def stream_records(recording: Recording, first: int, end: int | None = None) -> list[str]:
    """Return records as server-sent events; the page reconnects immediately."""
    records = list(enumerate(recording.records))[first:end]
    return ["retry: 1\n\n", *(f"id: {index}\ndata: {record_json(record)}\n\n" for index, record in records)]


ENDED = "event: end\ndata:\n\n"


def test_live_page_reads_each_record_once(browser: Browser, answered_run: Recording) -> None:
    connections = [stream_records(answered_run, 0, 20), [*stream_records(answered_run, 20), ENDED]]
    with open_live(browser, answered_run, 7, connections) as (page, asked):
        page.locator("#connection", has_text="ended").wait_for()
        page.locator("#position", has_text="end").wait_for()
        assert asked == [None, "19"]
        assert shown(page, "#status") == "answered"
        assert page.locator("#slider").get_attribute("max") == "11"
        assert heading(page) == "answered"


def test_live_page_follows_until_the_reader_moves(browser: Browser, answered_run: Recording) -> None:
    parts: SimpleQueue[str] = SimpleQueue()
    with open_live(browser, answered_run, 11, [iter(parts.get, "")]) as (page, _):
        assert (shown(page, "#status"), where(page)) == ("running", "3 / 3")
        press(page, "ArrowLeft")
        parts.put("".join(stream_records(answered_run, 0, 13)))
        page.locator("#position", has_text="2 / 4").wait_for()
        assert shown(page, "#connection") == "live"
        # What is selected survives new records.
        press(page, "Home", "ArrowRight")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#detail .part.reply pre'))")
        parts.put("".join(stream_records(answered_run, 13, 15)))
        page.locator("#position", has_text="1 / 5").wait_for()
        assert page.evaluate("getSelection().toString()") == LOOK_UP
        press(page, "End")
        parts.put("".join(stream_records(answered_run, 15, 17)))
        page.locator("#position", has_text="5 / 5").wait_for()
        assert heading(page) == "plan"
        parts.put("")


@pytest.mark.full
def test_live_page_may_start_empty_and_end_with_an_error(browser: Browser, answered_run: Recording) -> None:
    error = "line 9 of <b>it</b> is not a record"
    connection = [*stream_records(answered_run, 1, 9), f"event: end\ndata: {error}\n\n"]
    with open_live(browser, answered_run, 1, [connection]) as (page, _):
        page.locator("#connection", has_text="ended").wait_for()
        assert shown(page, "#fault") == error
        assert shown(page, "#status") == "incomplete"
        assert "The records end here." in shown(page, "#detail")
    # A live page may start empty.
    with open_live(browser, answered_run, 0, [[*stream_records(answered_run, 0), ENDED]]) as (page, _):
        page.locator("#status", has_text="answered").wait_for()
        page.locator("#position", has_text="end").wait_for()
        assert shown(page, "#asked") == QUESTION
        counts = page.locator(".notes", has_text="×").all_text_contents()
        assert sorted(counts) == ["×1", "×2", "×2", "×2", "×3"]
