"""The page of a run in a browser: its failures, its calls, and the addresses of its steps."""

import json
from typing import Any

import pytest

from graphexec import draw, messages
from graphexec.draw.runs.data import Record
from tests.draw import recorded
from tests.draw.browser import Locator, Page, Pages, fragment, press, resize, shown, where
from tests.draw.recorded import answering, calling, failed_node, record, sixty_steps, stopped_run
from tests.executor.actors import make_react
from tests.parameters import cases

pytestmark = pytest.mark.browser


def fetching(*urls: str, **options: float) -> list[recorded.Turn]:
    """Return turns that fetch a page each, as quickly as possible."""
    return [(1.0, calling(("fetch", {"url": url, "seconds": 0.1, **options}))) for url in urls]


def part(page: Page, title: str) -> Locator:
    return page.locator("#detail .part", has_text=title)


def test_keys_visit_the_failed_steps(pages: Pages) -> None:
    page = pages.run(sixty_steps())
    press(page, "Home")
    seen: list[tuple[str, str]] = []
    for _ in range(5):
        press(page, "e")
        assert page.locator(".row.current.bad").count() == 1
        seen.append((where(page), shown(page, "#detail h2")))
        if seen[-1][1] == "parse":
            assert shown(page, ".row.current .gist").startswith("could not be parsed: The arguments of")
            assert "not a JSON object" in shown(page, "#detail")
            assert "TOLD THE MODEL" in shown(page, "#detail").upper()
    assert len(set(seen)) == 5
    assert sum(node == "parse" for _, node in seen) == 1
    for key, expected in (("e", seen[0][0]), ("E", seen[4][0])):
        press(page, key)
        assert where(page) == expected
    assert page.locator("#ticks .tick").count() == 5
    press(page, "End")
    assert "14 tool calls, 1 reply not parsed" in shown(page, "#detail")
    assert shown(page, "#totals").split("tool calls")[1].split()[0] == "14"
    lines = part(page, "5 steps failed").locator("p").all_inner_texts()
    assert lines[0] == "step 15 dispatch_tools: fetch failed: ValueError: HTTP 503 for https://bad3.example"
    assert lines[1].startswith("step 22 parse: could not be parsed: The arguments of")
    assert len(lines) == 5


def test_failed_runs_show_where_and_what_they_received(pages: Pages) -> None:
    page = pages.run(recorded.failed_run())
    assert "failed" in (page.locator("[data-node=plan]").get_attribute("class") or "").split()
    assert page.locator("#drawing .failed").count() == 1
    for fact in ("connection reset by peer", "Traceback"):
        assert fact in shown(page, "#detail")
    totals = shown(page, "#totals").split("\n")
    assert totals == ["steps", "5", "model calls", "2", "tool call", "1", "tokens", "324", "time", "4.50 s"]
    page.locator("#detail a.step").first.click()
    assert shown(page, ".row.current.bad .name b") == "plan"
    for fact in ("think", "2.50 s"):
        assert fact in shown(page, "#detail")
    # A failed node shows what it received.
    page = pages.run(failed_node(), "#step=9", size=(1100, 900))
    received = page.locator("#detail .part").first
    assert received.inner_text().split("\n\n")[0] == "INPUT"
    assert received.locator("summary").all_inner_texts() == ["search(price) · ok · 0.80 s"]
    assert received.locator(".part.reply .text").all_inner_texts() == ["3 hits for price"]
    press(page, "End")
    # The code of a traceback is not wrapped.
    frames = page.locator("#detail .frames")
    heights = frames.evaluate("one => [one.scrollHeight, one.textContent.trimEnd().split('\\n').length]")
    line: float = frames.evaluate("one => parseFloat(getComputedStyle(one).lineHeight)")
    assert heights[0] < (heights[1] + 2) * line
    assert part(page, "1 step failed").locator("p").inner_text() == "step 9 convert_prices ended the run"
    # The last calls are listed.
    called = part(page, "Tool calls")
    assert called.locator("summary").inner_text() == "2 tool calls"
    lines = [line.inner_text().replace("\n", " ") for line in called.locator("li .call").all()]
    assert lines == ["search query flights step 3 · 0.80 s", "search query price step 8 · 0.80 s"]
    assert called.locator("li").last.inner_text().endswith("3 hits for price")
    called.locator("a.step").last.click()
    assert page.evaluate("location.hash") == "#step=8&call=0"


@cases("parameters, cut", ({}, "cut after 16 tokens"), ({"max_tokens": 20}, "cut after 16 tokens (max_tokens 20)"))
def test_cut_reply_names_the_number_of_tokens(pages: Pages, parameters: dict[str, int], cut: str) -> None:
    calls = (messages.ToolCall("c", "search", '{"query": "el'),)
    reply = messages.ModelReply("", calls, usage=messages.Usage(300, 16), finish_reason="length")
    start, *others = record([(1.0, reply), (1.0, answering("Sorry."))], "q").records
    page = pages.run(draw.Recording([start | {"parameters": parameters}, *others]))
    item = page.locator(".done li").first
    assert item.locator(".call").inner_text().replace("\n", " ") == f"reply not parsed, {cut} step 2"
    assert item.inner_text().count("not a JSON object") == 1
    assert item.locator(".tool").count() == 0
    row = page.locator('[aria-level="1"]').first
    assert row.locator(".gist").inner_text().startswith(f"could not be parsed, {cut}: The arguments of")
    row.locator(".name").click()
    assert cut in shown(page, "#detail")
    assert shown(page, "#detail").count("not a JSON object") == 1
    press(page, "k")
    assert shown(page, ".part.reply .aside") == f"1.00 s · 300 + 16 tokens · {cut}"


@pytest.mark.full
def test_bars_and_rows_show_calls(pages: Pages) -> None:
    calls = [("fetch", {"url": f"https://{seconds}.example", "seconds": seconds}) for seconds in (1, 2, 3)]
    page = pages.run(record([(1.0, calling(*calls)), (1.0, answering("done"))], "Fetch three."))
    page.locator("#slider").fill("3")
    boxes = [box for bar in page.locator("[data-bar]").all() if (box := bar.bounding_box()) is not None]
    assert len(boxes) == 3
    assert len({round(box["x"], 1) for box in boxes}) == 1
    for times, box in enumerate(boxes, 1):
        assert box["width"] / boxes[0]["width"] == pytest.approx(times, rel=0.02)
    page.locator("button.bar").nth(1).click()
    assert shown(page, ".pair.selected .tool") == "fetch"
    assert page.evaluate("location.hash").endswith("call=1")
    # The search finds what the rows show.
    reply = calling(("search", {"query": "price"}), text="First the price.")
    page = pages.run(record([(1.0, reply), (1.0, answering("It is 3."))], "q"))
    assert listed(page, "search(price)") == [1, 2, 3]
    assert page.locator(".row .gist").first.inner_text() == "First the price. search(price)"
    assert listed(page, "parse → AgentFinish") == [6]
    # A bar counts the iteration of a waiting step.
    records = sixty_steps().records
    asked = [at for at, record in enumerate(records) if record["event"] == "asked" and record["node"] == "plan"]
    page = pages.run(draw.Recording(records[: asked[2] + 1]))
    assert shown(page, "#detail .where").endswith("iteration 3")
    assert page.locator("#detail .bar").first.inner_text().split() == ["iterations", "3", "of", "20"]
    # Parallel calls show their failures.
    page = pages.run(recorded.twelve_tools())
    press(page, "Home", "e")
    assert "12 calls at once, 2 of 12 failed" in (page.locator("#detail").text_content() or "")
    assert shown(page, ".row.current .gist").startswith("2 of 12 failed: fetch failed: ValueError")
    counts = page.locator(".together .count").all_inner_texts()
    assert counts == [f"{0.3 * at:.2f} s" for at in range(1, 13)]


def test_address_names_the_step(pages: Pages) -> None:
    page = pages.run(sixty_steps(), "#step=15&call=0&q=503")
    assert where(page) == "15 / 60"
    assert page.locator("#search").input_value() == "503"
    page.locator("#detail").focus()
    press(page, "ArrowRight")
    assert "step=16" in fragment(page)
    press(page, "d")
    theme = page.locator("html").get_attribute("data-theme")
    page.reload()
    assert where(page) == "16 / 60"
    assert page.locator("html").get_attribute("data-theme") == theme
    page.goto("about:blank")
    page.go_back()
    assert where(page) == "16 / 60"


def test_stopped_run_says_what_repeated_and_failed(pages: Pages) -> None:
    page = pages.run(stopped_run(), "#step=17")
    data = page.locator("#detail .outcome .data")
    assert data.locator(":scope > dt").all_inner_texts() == ["run", "cause"]
    limit = "The limit of 4 iterations was reached (4 spent)."
    assert data.locator(":scope > dd").all_inner_texts() == ["observations 4", limit]
    assert shown(page, ".row.current .gist") == "4 observations"
    press(page, "End")
    stopped = page.locator(".part.stopped")
    assert "search(again) was asked 4 times, with the same result" in stopped.inner_text()
    assert "Something failed" not in stopped.inner_text()
    steps = stopped.locator("p", has_text="asked").locator("a.step").all_inner_texts()
    assert steps == [f"step {at}" for at in (3, 7, 11, 15)]
    stopped.locator("a.step", has_text="step 11").click()
    assert where(page).startswith("11 / ")
    # It says what failed, too.
    page = pages.run(record(fetching("bad1", "good1", "bad2", "good2"), "q", max_iterations=4))
    assert "Something failed in 2 of 4 iterations." in shown(page, ".part.stopped")
    page = pages.run(record([*fetching(*(f"bad{at}" for at in range(11))), (1.0, answering("No."))], "q"))
    lines = part(page, "11 steps failed").locator("p").all_inner_texts()
    assert (len(lines), lines[-1]) == (9, "and step 35, step 39, step 43")
    # The step that ended the run is the first.
    turns = [*fetching("bad", "bad"), (1.0, calling(("search", {"query": "price"})))]
    page = pages.run(record(turns, "q", nodes=[recorded.convert_prices]))
    first, *others = part(page, "3 steps failed").locator("p").all_inner_texts()
    assert first == "step 14 convert_prices ended the run"
    assert [line.partition(":")[0] for line in others] == ["step 3 dispatch_tools", "step 8 dispatch_tools"]


@pytest.mark.full
def test_long_repeated_and_slow_steps_are_remarked(pages: Pages) -> None:
    turns = fetching("bad" + 40 * " and more and more", "bad")
    page = pages.run(record([*turns, (1.0, answering("No."))], "q"))
    lines = page.locator("#detail .part p.line")
    heights = [one.evaluate("one => one.clientHeight") for one in lines.all()]
    assert heights[0] == pytest.approx(2 * heights[1], abs=1)
    assert lines.first.evaluate("one => one.scrollHeight > one.clientHeight")
    # Different calls had one result.
    turns = [turn for seconds in (0.1, 0.2, 0.3) for turn in fetching("bad", seconds=seconds)]
    line = pages.run(record(turns, "q", max_iterations=3)).locator(".part.stopped p").last
    assert line.inner_text().startswith("3 different calls of fetch had the same result, fetch failed: ValueError")
    assert line.locator("a.step").all_inner_texts() == ["step 3", "step 7", "step 11"]
    page = pages.run(record(turns, "q", max_iterations=2))
    assert "different calls" not in shown(page, ".part.stopped")
    # A call took most of the time.
    calls = [("fetch", {"url": f"{at}.example", "seconds": seconds}) for at, seconds in enumerate((1, 21, 0.5, 0.7))]
    page = pages.run(record([(1.0, calling(*calls)), (1.0, answering("done"))], "q"))
    slow = part(page, "Where the time went")
    assert slow.locator("p").inner_text() == (
        "fetch(url=1.example, seconds=21) took 21 s of the run's 23 s; "
        "3 other calls at the same time took at most 1.00 s: step 3"
    )
    slow.locator("a.step").click()
    assert page.evaluate("location.hash") == "#step=3&call=1"
    assert "1.example" in shown(page, ".pair.selected")
    # The call takes no more than half of the time.
    calls = [("fetch", {"url": "a.example", "seconds": 2}), ("search", {"query": "x"})]
    page = pages.run(record([(1.0, calling(*calls)), (1.0, answering("done"))], "q"))
    assert part(page, "Where the time went").count() == 0


def react_without_form() -> draw.Recording:
    """Record a ReAct run whose first reply has no action."""
    replies = "Next I would look it up.", "Thought: I know.\\nFinal Answer: 42"
    return draw.recording_of(make_react(*replies, handle_parsing_errors=True).run("q"))


@pytest.mark.full
@cases("make, step, text", (react_without_form, 2, "Next I would look it up."), (sixty_steps, 22, "fetch {not json"))
def test_unparsed_reply_is_shown_where_it_was_parsed(pages: Pages, make: Any, step: int, text: str) -> None:
    parts = pages.run(make(), f"#step={step}").locator("#detail .part.failed")
    titles = parts.locator("h3").all_inner_texts()
    assert titles[0].lower().startswith("the reply could not be parsed")
    assert titles[-1].lower() == "the reply"
    assert text in parts.last.inner_text()


def listed(page: Page, words: str) -> list[int]:
    page.locator("#search").fill(words)
    return [int(row.get_attribute("data-position") or -1) for row in page.locator(".row").all()]


def test_filter_selects_steps(pages: Pages) -> None:
    recording = sixty_steps()
    # The records of each step.
    steps: list[tuple[int, Record]] = []
    for one in recording.records:
        entered = one["event"] == "entered"
        steps.append((steps[-1][0] + entered if steps else int(entered), one))
    replies = [(at, reply) for at, one in steps for reply in one.get("replies", ())]
    calls = [(at, reply) for at, reply in replies if reply.get("tool") == "fetch"]
    assert calls
    page = pages.run(recording)
    for words, expected in {
        "node:parse status:parse_error": [at for at, one in steps if one["event"] == "moved" and one.get("steps")],
        "tool:fetch >0.5s": [at for at, reply in calls if reply["seconds"] > 0.5],
        "tool:fetch >1.2s": [],
        "status:Failed": listed(page, "status:error"),
        "tool:fetch status:error 503": listed(page, "tool:fetch 503"),
    }.items():
        assert listed(page, words) == expected, words
    counts = {"status:error": 5, "node:dispatch_tools outcome:Observed": len(calls) + 1, "node:plan <1.15s": 2}
    assert {words: len(listed(page, words)) for words in counts} == counts


@pytest.mark.full
def test_page_leaves_out_what_it_shows_elsewhere(pages: Pages) -> None:
    page = pages.run(sixty_steps(), "#step=2")
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
@pytest.mark.full
@cases(
    "value, data",
    ({"actions": [{"tool": "search", "log": "Invoking"}]}, "actions [0] tool search"),
    ({"return_values": {"output": "done"}, "log": "done"}, "return_values output done"),
    ({"log": "kept", "lines": 3}, "log kept lines 3"),
    ({"actions": ["go", None, 1]}, "actions [0] go [1] null [2] 1"),
    ({"actions": [{"log": "kept"}]}, "actions [0] log kept"),
)
def test_outcome_leaves_out_the_log_of_an_agent(pages: Pages, value: object, data: str) -> None:
    run = record([(1.0, calling(("search", {"query": "x"}))), (1.0, answering("done"))], "q")
    lines = [one | {"value": value} if one.get("outcome") == "Acted" else one for one in run.records]
    page = pages.run(draw.Recording.from_json_lines("".join(f"{json.dumps(line)}\n" for line in lines)), "#step=2")
    page.set_default_timeout(3000)
    found = page.locator("#detail .outcome .data").first
    assert " ".join(found.locator("dt, .value").all_inner_texts()) == data
