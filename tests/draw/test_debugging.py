"""The page of a run in a browser: its failures, its calls, and the addresses of its steps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphexec import AgentExecutor, create_react_agent
from graphexec.draw import Recording, recording_of
from graphexec.draw.runs.visits import visits_of
from graphexec.messages import ModelReply, ToolCall, Usage
from graphexec.models import ScriptedModel
from tests.draw.browser import fragment, open_run, resize
from tests.draw.debugged import (
    TOOLS,
    answering,
    calling,
    convert_prices,
    failed_node,
    failed_run,
    record,
    sixty_steps,
    stopped_run,
    twelve_tools,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")
pytestmark = pytest.mark.browser


def where(page: Page) -> str:
    return page.locator("#position").inner_text()


def test_keys_visit_the_failed_steps(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps()) as page:
        page.keyboard.press("Home")
        seen: list[tuple[str, str]] = []
        for _ in range(5):
            page.keyboard.press("e")
            assert page.locator(".row.current.bad").count() == 1
            seen.append((where(page), page.locator("#detail h2").inner_text()))
        assert len(set(seen)) == 5
        assert sum(node == "parse" for _, node in seen) == 1
        page.keyboard.press("e")
        assert where(page) == seen[0][0]
        page.keyboard.press("E")
        assert where(page) == seen[4][0]
        assert page.locator("#ticks .tick").count() == 5


def test_parse_failure_shows_the_error(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps()) as page:
        page.keyboard.press("Home")
        while page.locator("#detail h2").inner_text() != "parse":
            page.keyboard.press("e")
        assert page.locator(".row.current .gist").inner_text().startswith("could not be parsed: The arguments of")
        shown = page.locator("#detail").inner_text()
        assert "not a JSON object" in shown
        assert "TOLD THE MODEL" in shown.upper()
        page.keyboard.press("End")
        assert "14 tool calls, 1 reply not parsed" in page.locator("#detail").inner_text()
        assert page.locator("#totals").inner_text().split("tool calls")[1].split()[0] == "14"


def test_failed_run_shows_where_it_failed(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, failed_run()) as page:
        assert "failed" in (page.locator("[data-node=plan]").get_attribute("class") or "").split()
        assert page.locator("#drawing .failed").count() == 1
        shown = page.locator("#detail").inner_text()
        assert "connection reset by peer" in shown
        assert "Traceback" in shown
        totals = page.locator("#totals").inner_text().split("\n")
        assert totals == ["steps", "5", "model calls", "2", "tool call", "1", "tokens", "324", "time", "4.50 s"]
        page.locator("#detail a.step").first.click()
        assert page.locator(".row.current.bad .name b").inner_text() == "plan"
        assert "acomplete" in page.locator("#detail").inner_text()
        assert "2.50 s" in page.locator("#detail").inner_text()


def test_failed_node_shows_what_it_received(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, failed_node(), "#step=9") as page:
        received = page.locator("#detail .part").first
        assert received.inner_text().split("\n\n")[0] == "INPUT"
        assert received.locator("summary").all_inner_texts() == ["search(price) · ok · 0.80 s"]
        assert received.locator(".part.reply .text").all_inner_texts() == ["3 hits for price"]


def test_end_of_a_failed_run_lists_its_last_calls(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, failed_node()) as page:
        part = page.locator("#detail .part", has_text="Tool calls")
        assert part.locator("summary").inner_text() == "2 tool calls"
        lines = [line.inner_text().replace("\n", " ") for line in part.locator("li .call").all()]
        assert lines == ["search query flights step 3 · 0.80 s", "search query price step 8 · 0.80 s"]
        assert part.locator("li").last.inner_text().endswith("3 hits for price")
        part.locator("a.step").last.click()
        assert page.evaluate("location.hash") == "#step=8&call=0"


def test_code_of_a_traceback_is_not_wrapped(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, failed_node(), size=(1100, 900)) as page:
        frames = page.locator("#detail .frames")
        heights = frames.evaluate("one => [one.scrollHeight, one.textContent.trimEnd().split('\\n').length]")
        line: float = frames.evaluate("one => parseFloat(getComputedStyle(one).lineHeight)")
        assert heights[0] < (heights[1] + 2) * line


@pytest.mark.parametrize(
    ("parameters", "cut"),
    [({}, "cut after 16 tokens"), ({"max_tokens": 20}, "cut after 16 tokens (max_tokens 20)")],
)
def test_cut_reply_names_the_number_of_tokens(
    browser: Browser, tmp_path: Path, parameters: dict[str, int], cut: str
) -> None:
    calls = (ToolCall("c", "search", '{"query": "el'),)
    reply = ModelReply("", calls, usage=Usage(300, 16), finish_reason="length")
    run = record([(1.0, reply), (1.0, answering("Sorry."))], "q")
    start, *others = run.records
    with open_run(browser, tmp_path, Recording([start | {"parameters": parameters}, *others])) as page:
        item = page.locator(".done li").first
        assert item.locator(".call").inner_text().replace("\n", " ") == f"reply not parsed, {cut} step 2"
        assert item.inner_text().count("not a JSON object") == 1
        assert item.locator(".tool").count() == 0
        row = page.locator('[aria-level="1"]').first
        assert row.locator(".gist").inner_text().startswith(f"could not be parsed, {cut}: The arguments of")
        row.locator(".name").click()
        assert cut in page.locator("#detail").inner_text()
        assert page.locator("#detail").inner_text().count("not a JSON object") == 1
        page.keyboard.press("k")
        assert page.locator(".part.reply .aside").inner_text() == f"1.00 s · 300 + 16 tokens · {cut}"


def test_bars_show_times_of_parallel_calls(browser: Browser, tmp_path: Path) -> None:
    calls = [("fetch", {"url": f"https://{seconds}.example", "seconds": seconds}) for seconds in (1, 2, 3)]
    with open_run(
        browser, tmp_path, record([(1.0, calling(*calls)), (1.0, answering("done"))], "Fetch three.")
    ) as page:
        page.locator("#slider").fill("3")
        boxes = [bar.bounding_box() for bar in page.locator("[data-bar]").all()]
        assert len(boxes) == 3
        known = [box for box in boxes if box is not None]
        assert len({round(box["x"], 1) for box in known}) == 1
        for times, box in enumerate(known, 1):
            assert box["width"] / known[0]["width"] == pytest.approx(times, rel=0.02)
        page.locator("button.bar").nth(1).click()
        assert page.locator(".pair.selected .tool").inner_text() == "fetch"
        assert page.evaluate("location.hash").endswith("call=1")


def test_parallel_calls_show_their_failures(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, twelve_tools()) as page:
        page.keyboard.press("Home")
        page.keyboard.press("e")
        assert "12 calls at once, 2 of 12 failed" in (page.locator("#detail").text_content() or "")
        assert page.locator(".row.current .gist").inner_text().startswith("2 of 12 failed: fetch failed: ValueError")
        counts = page.locator(".together .count").all_inner_texts()
        assert counts == [f"{0.3 * at:.2f} s" for at in range(1, 13)]


def test_address_names_the_step(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps(), "#step=15&call=0&q=503") as page:
        assert where(page) == "15 / 60"
        assert page.locator("#search").input_value() == "503"
        page.locator("#detail").focus()
        page.keyboard.press("ArrowRight")
        assert "step=16" in fragment(page)
        page.keyboard.press("d")
        theme = page.locator("html").get_attribute("data-theme")
        page.reload()
        assert where(page) == "16 / 60"
        assert page.locator("html").get_attribute("data-theme") == theme
        page.goto("about:blank")
        page.go_back()
        assert where(page) == "16 / 60"


def test_stopped_run_says_what_repeated(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, stopped_run()) as page:
        part = page.locator(".part.stopped")
        shown = part.inner_text()
        assert "search(again) was asked 4 times, with the same result" in shown
        assert part.locator("p", has_text="asked").locator("a.step").all_inner_texts() == [
            f"step {at}" for at in (3, 7, 11, 15)
        ]
        part.locator("a.step", has_text="step 11").click()
        assert where(page).startswith("11 / ")


def test_stopped_run_says_in_how_many_iterations_something_failed(browser: Browser, tmp_path: Path) -> None:
    urls = ["bad1", "good1", "bad2", "good2"]
    run = record([(1.0, calling(("fetch", {"url": url, "seconds": 0.1}))) for url in urls], "q", max_iterations=4)
    with open_run(browser, tmp_path, run) as page:
        assert "Something failed in 2 of 4 iterations." in page.locator(".part.stopped").inner_text()
    with open_run(browser, tmp_path, stopped_run()) as page:
        assert "Something failed" not in page.locator(".part.stopped").inner_text()


def test_failed_steps_are_described(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps()) as page:
        lines = page.locator("#detail .part", has_text="5 steps failed").locator("p").all_inner_texts()
        assert lines[0] == "step 15 dispatch_tools: fetch failed: ValueError: HTTP 503 for https://bad3.example"
        assert lines[1].startswith("step 22 parse: could not be parsed: The arguments of")
        assert len(lines) == 5
    turns = [(1.0, calling(("fetch", {"url": f"bad{at}", "seconds": 0.1}))) for at in range(11)]
    with open_run(browser, tmp_path, record([*turns, (1.0, answering("No."))], "q")) as page:
        lines = page.locator("#detail .part", has_text="11 steps failed").locator("p").all_inner_texts()
        assert len(lines) == 9
        assert lines[-1] == "and step 35, step 39, step 43"
    with open_run(browser, tmp_path, failed_node()) as page:
        assert page.locator("#detail .part", has_text="1 step failed").locator("p").inner_text() == (
            "step 9 convert_prices ended the run"
        )


def test_step_that_ended_the_run_is_the_first_of_those_that_failed(browser: Browser, tmp_path: Path) -> None:
    bad = (1.0, calling(("fetch", {"url": "bad", "seconds": 0.1})))
    run = record([bad, bad, (1.0, calling(("search", {"query": "price"})))], "q", nodes=[convert_prices])
    with open_run(browser, tmp_path, run) as page:
        lines = page.locator("#detail .part", has_text="3 steps failed").locator("p").all_inner_texts()
        assert lines[0] == "step 14 convert_prices ended the run"
        assert [line.partition(":")[0] for line in lines[1:]] == ["step 3 dispatch_tools", "step 8 dispatch_tools"]


def test_text_of_a_failed_step_has_two_lines(browser: Browser, tmp_path: Path) -> None:
    long = (1.0, calling(("fetch", {"url": "bad" + 40 * " and more and more", "seconds": 0.1})))
    short = (1.0, calling(("fetch", {"url": "bad", "seconds": 0.1})))
    with open_run(browser, tmp_path, record([long, short, (1.0, answering("No."))], "q")) as page:
        lines = page.locator("#detail .part p.line")
        heights = [one.evaluate("one => one.clientHeight") for one in lines.all()]
        assert heights[0] == pytest.approx(2 * heights[1], abs=1)
        assert lines.first.evaluate("one => one.scrollHeight > one.clientHeight")
        page.emulate_media(media="print")
        assert lines.first.evaluate("one => one.scrollHeight === one.clientHeight")


def react_without_a_form() -> Recording:
    """Record a ReAct run whose first reply has no action."""
    model = ScriptedModel(["Next I would look it up.", "Thought: I know.\\nFinal Answer: 42"])
    agent = create_react_agent(model, TOOLS)
    return recording_of(AgentExecutor(agent=agent, tools=TOOLS, handle_parsing_errors=True).run("q"))


@pytest.mark.parametrize(
    ("make", "step", "text"),
    [(react_without_a_form, 2, "Next I would look it up."), (sixty_steps, 22, "fetch {not json")],
    ids=["text", "arguments"],
)
def test_unparsed_reply_is_shown_where_it_was_parsed(
    browser: Browser, tmp_path: Path, make: Callable[[], Recording], step: int, text: str
) -> None:
    with open_run(browser, tmp_path, make(), f"#step={step}") as page:
        parts = page.locator("#detail .part.failed")
        titles = parts.locator("h3").all_inner_texts()
        assert titles[0].lower().startswith("the reply could not be parsed")
        assert titles[-1].lower() == "the reply"
        assert text in parts.last.inner_text()


def test_used_up_limit_is_a_sentence(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, stopped_run(), "#step=17") as page:
        data = page.locator("#detail .outcome .data")
        assert data.locator(":scope > dt").all_inner_texts() == ["run", "limit"]
        assert data.locator(":scope > dd").all_inner_texts() == [
            "observations 4",
            "The limit of 4 iterations was reached (4 spent).",
        ]
        assert page.locator(".row.current .gist").inner_text() == "4 observations"


def test_different_calls_with_one_result_are_remarked(browser: Browser, tmp_path: Path) -> None:
    turns = [(1.0, calling(("fetch", {"url": "bad", "seconds": seconds}))) for seconds in (0.1, 0.2, 0.3)]
    with open_run(browser, tmp_path, record(turns, "q", max_iterations=3)) as page:
        line = page.locator(".part.stopped p").last
        assert line.inner_text().startswith("3 different calls of fetch had the same result, fetch failed: ValueError")
        assert line.locator("a.step").all_inner_texts() == ["step 3", "step 7", "step 11"]
    with open_run(browser, tmp_path, record(turns, "q", max_iterations=2)) as page:
        assert "different calls" not in page.locator(".part.stopped").inner_text()


def test_call_that_took_most_of_the_time_is_remarked(browser: Browser, tmp_path: Path) -> None:
    calls = [("fetch", {"url": f"{at}.example", "seconds": seconds}) for at, seconds in enumerate((1, 21, 0.5, 0.7))]
    with open_run(browser, tmp_path, record([(1.0, calling(*calls)), (1.0, answering("done"))], "q")) as page:
        part = page.locator("#detail .part", has_text="Where the time went")
        assert part.locator("p").inner_text() == (
            "fetch(url=1.example, seconds=21) took 21 s of the run's 23 s; "
            "3 other calls at the same time took at most 1.00 s: step 3"
        )
        part.locator("a.step").click()
        assert page.evaluate("location.hash") == "#step=3&call=1"
        assert "1.example" in page.locator(".pair.selected").inner_text()
    # The call takes no more than half of the time.
    calls = [("fetch", {"url": "a.example", "seconds": 2}), ("search", {"query": "x"})]
    with open_run(browser, tmp_path, record([(1.0, calling(*calls)), (1.0, answering("done"))], "q")) as page:
        assert page.locator("#detail .part", has_text="Where the time went").count() == 0


def listed(page: Page, words: str) -> list[int]:
    """Return the positions that the list shows for a filter."""
    page.locator("#search").fill(words)
    return [int(row.get_attribute("data-position") or -1) for row in page.locator(".row").all()]


def test_filter_selects_steps(browser: Browser, tmp_path: Path) -> None:
    recording = sixty_steps()
    slow = [
        (at, call.seconds)
        for at, visit in enumerate(visits_of(recording), 1)
        for request in visit.requests
        for call in request.calls
        if call.effect.get("tool") == "fetch"
    ]
    assert slow
    with open_run(browser, tmp_path, recording) as page:
        assert len(listed(page, "status:error")) == 5
        assert listed(page, "status:Failed") == listed(page, "status:error")
        assert listed(page, "node:parse status:parse_error") == [
            at for at, visit in enumerate(visits_of(recording), 1) if visit.unasked
        ]
        assert listed(page, "tool:fetch >0.5s") == [at for at, seconds in slow if seconds > 0.5]
        assert listed(page, "tool:fetch >1.2s") == []
        assert listed(page, "tool:fetch status:error 503") == listed(page, "tool:fetch 503")
        assert len(listed(page, "node:dispatch_tools outcome:Observed")) == len(slow) + 1
        assert len(listed(page, "node:plan <1.15s")) == 2


def test_search_finds_what_the_rows_show(browser: Browser, tmp_path: Path) -> None:
    asked = calling(("search", {"query": "price"}), text="First the price.")
    run = record([(1.0, asked), (1.0, answering("It is 3."))], "q")
    with open_run(browser, tmp_path, run) as page:
        assert listed(page, "search(price)") == [1, 2, 3]
        assert page.locator(".row .gist").first.inner_text() == "First the price. search(price)"
        assert listed(page, "parse → AgentFinish") == [6]


def test_request_is_copied_as_json_and_curl(browser: Browser, tmp_path: Path) -> None:
    recording = sixty_steps()
    with open_run(browser, tmp_path, recording, "#step=9") as page:

        def copied(label: str) -> str:
            page.locator(".copy", has_text=label).click()
            page.locator(".copy", has_text="copied").wait_for()
            page.locator(".copy", has_text=label).wait_for()
            text: str = page.evaluate("navigator.clipboard.readText()")
            return text

        body = json.loads(copied("copy JSON"))
        assert [message["role"] for message in body["messages"]] == ["system", "user", *["assistant", "tool"] * 2]
        assert body["messages"][2]["tool_calls"][0]["function"] == {
            "name": "fetch",
            "arguments": '{"url": "https://site0.example"}',
        }
        assert body["messages"][3]["tool_call_id"] == "call_0"
        assert [one["function"]["name"] for one in body["tools"]] == ["fetch", "search"]
        words = shlex.split(copied("copy curl"))
        assert words[0] == "curl"
        assert json.loads(words[words.index("-d") + 1]) == body
        assert [word for word in words if "Bearer" in word] == ["Authorization: Bearer $OPENAI_API_KEY"]
        compile(copied("copy Python"), "copied.py", "exec")
        events = [json.loads(line)["event"] for line in copied("copy records").splitlines()]
        assert events == ["entered", "asked", "answered", "moved"]


def test_bar_counts_the_iteration_of_a_waiting_step(browser: Browser, tmp_path: Path) -> None:
    records = sixty_steps().records
    asked = [at for at, record in enumerate(records) if record["event"] == "asked" and record["node"] == "plan"]
    with open_run(browser, tmp_path, Recording(records[: asked[2] + 1])) as page:
        assert page.locator("#detail .where").inner_text().endswith("iteration 3")
        assert page.locator("#detail .bar").first.inner_text().split() == ["iterations", "3", "of", "20"]


def test_page_leaves_out_what_it_shows_elsewhere(browser: Browser, tmp_path: Path) -> None:
    recording = sixty_steps()
    with open_run(browser, tmp_path, recording, "#step=2") as page:
        # What the node received is the outcome of the step before.
        assert page.locator("#detail .part").first.inner_text().split("\n")[-1] == "Replied from plan, step 1"
        for step in range(1, 9):
            page.goto(f"{page.url.split('#')[0]}#step={step}")
            assert "log" not in page.locator("#detail dt").all_inner_texts()
        assert page.locator("#drawing text", has_text="start of a run").count() == 0
        assert [legend.is_visible() for legend in page.locator(".lit").all()] == [True, True]
        assert page.locator("#proof").is_visible()
        resize(page, 390, 844)
        assert not page.locator("#proof").is_visible()


# The log of an agent repeats the reply; similar data of another machine are shown.
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"actions": [{"tool": "search", "log": "Invoking"}]}, "actions [0] tool search"),
        ({"return_values": {"output": "done"}, "log": "done"}, "return_values output done"),
        ({"log": "kept", "lines": 3}, "log kept lines 3"),
        ({"actions": ["go", None, 1]}, "actions [0] go [1] null [2] 1"),
        ({"actions": [{"log": "kept"}]}, "actions [0] log kept"),
    ],
)
def test_outcome_leaves_out_the_log_of_an_agent(browser: Browser, tmp_path: Path, value: object, shown: str) -> None:
    run = record([(1.0, calling(("search", {"query": "x"}))), (1.0, answering("done"))], "q")
    lines = [one | {"value": value} if one.get("outcome") == "Acted" else one for one in run.records]
    changed = Recording.from_json_lines("".join(f"{json.dumps(line)}\n" for line in lines))
    with open_run(browser, tmp_path, changed, "#step=2") as page:
        page.set_default_timeout(3000)
        data = page.locator("#detail .outcome .data").first
        assert " ".join(data.locator("dt, .value").all_inner_texts()) == shown
