"""The steps of a run in a browser: the list, whose iterations open, and the waterfall, with a bar for each call."""

from itertools import product

import pytest

from graphexec.draw import Recording
from graphexec.draw.runs.data import Record
from tests.draw import recorded
from tests.draw.browser import Locator, Page, Pages, box_of, classes, fragment, press, shown, where
from tests.draw.recorded import answering, calling, failed_run, record, sixty_steps, three_entries, twelve_tools
from tests.parameters import read_tables


def iterations(page: Page) -> Locator:
    return page.locator('[aria-level="1"]')


def steps(page: Page) -> Locator:
    return page.locator('[aria-level="2"]')


def levels(page: Page) -> list[int]:
    return [int(row.get_attribute("aria-level") or 0) for row in page.locator(".row").all()]


def test_rows_of_iterations_open_and_close(pages: Pages) -> None:
    page = pages.run(recorded.sixty_steps())
    assert iterations(page).count() == 16
    assert levels(page) == [0, *[1] * 16, 0]
    row = iterations(page).nth(3)
    assert (row.get_attribute("aria-posinset"), row.get_attribute("aria-setsize")) == ("4", "16")
    assert "bad" in classes(row)
    assert row.locator(".gist").inner_text().startswith("fetch failed: ValueError: HTTP 503")
    row.click()
    assert row.get_attribute("aria-expanded") == "false"
    page.locator("#list").focus()
    press(page, "Enter")
    assert steps(page).count() == 4
    press(page, "ArrowDown")
    assert shown(page, ".row.current b") == "plan"
    press(page, "Enter")
    assert steps(page).count() == 0
    # Arrows open and leave rows.
    page = pages.run(recorded.sixty_steps())
    row = iterations(page).nth(3)
    row.click()
    press(page, "ArrowRight")
    assert row.get_attribute("aria-expanded") == "true"
    assert "current" in classes(row)
    press(page, "ArrowRight")
    assert page.locator(".row.current").get_attribute("aria-level") == "2"
    press(page, "ArrowDown", "ArrowRight")
    assert (where(page), shown(page, ".row.current b")) == ("14 / 60", "parse")
    press(page, "ArrowLeft")
    assert "current" in classes(row)
    press(page, "ArrowLeft")
    assert steps(page).count() == 0
    press(page, "ArrowLeft")
    # Neither the row of the iteration nor closing it leads away from the step.
    assert where(page) == "14 / 60"


def test_row_leads_to_its_failed_step(pages: Pages) -> None:
    page = pages.run(recorded.sixty_steps())
    iterations(page).nth(3).locator(".name").click()
    assert (where(page), shown(page, "#detail h2")) == ("15 / 60", "dispatch_tools")
    assert "current" in classes(iterations(page).nth(3))
    iterations(page).nth(4).locator(".name").click()
    assert where(page) == "17 / 60"
    page.locator("#list").focus()
    press(page, "ArrowUp")
    assert where(page) == "15 / 60"
    # The iteration of the step gone to is open.
    page = pages.run(recorded.sixty_steps(), "#step=15")
    assert steps(page).count() == 4
    assert page.locator(".row.current").get_attribute("data-position") == "15"
    press(page, "End")
    assert steps(page).count() == 0


@pytest.mark.full
def test_rows_open_and_leave_out_steps_on_demand(pages: Pages) -> None:
    page = pages.run(recorded.sixty_steps(), "#step=14")
    for index, opened in ((3, 0), (0, 4), (3, 8)):
        iterations(page).nth(index).locator(".opens").click()
        assert (where(page), steps(page).count()) == ("14 / 60", opened)
    assert shown(page, ".row.current b") == "parse"
    # Steps without calls are left out on demand.
    page = pages.run(recorded.sixty_steps(), "#step=1")
    page.locator("#quiet").click()
    assert steps(page).locator("b").all_inner_texts() == ["plan", "dispatch_tools"]
    page.locator("#list").focus()
    press(page, "p")
    assert steps(page).count() == 4


def test_failed_node_is_named_and_not_the_calls_before(pages: Pages) -> None:
    page = pages.run(recorded.failed_node())
    row = iterations(page).last
    assert "bad" in classes(row)
    assert row.locator(".name").inner_text() == "search(price)"
    error = "convert_prices failed: ValueError: could not convert string to float: '3 hits for price'"
    assert row.locator(".bad").all_inner_texts() == [error]
    row.locator(".name").click()
    assert shown(page, "#detail h2") == "convert_prices"
    press(page, "ArrowRight")
    assert steps(page).locator(".name").last.inner_text() == "convert_prices failed"
    press(page, "f")
    box = page.locator(".toggle")
    assert "failed" in classes(box)
    assert (box.get_attribute("aria-label") or "").endswith("visited 2 times, failed")
    press(page, "Home")
    assert "failed" not in classes(box)


def test_equal_iterations_are_one_row(pages: Pages) -> None:
    page = pages.run(recorded.stopped_run())
    row = iterations(page).first
    assert row.locator(".name").inner_text() == "search(again) ×4"
    assert row.locator(".number").inner_text() == "1–4"
    row.locator(".opens").click()
    assert levels(page) == [0, 1, 2, 2, 2, 2, 1, 0]
    steps(page).locator(".opens").nth(1).click()
    assert levels(page) == [0, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 0]
    # The list is headed by what it has.
    assert page.get_by_role("tree", name="Iterations").count() == 1
    page.locator("#search").fill("node:plan")
    assert page.locator("#list-title").text_content() == "Steps found"
    page = pages.run(Recording(recorded.stopped_run().records[:1]))
    assert page.locator("#list-title").text_content() == "Steps"


@pytest.mark.full
def test_rows_of_failures_and_of_single_steps(pages: Pages) -> None:
    turns: list[recorded.Turn] = [(1.0, calling(("fetch", {"url": "https://bad.example"})))] * 3
    row = iterations(pages.run(record([*turns, (1.0, answering("No."))], "Insist."))).first
    assert row.locator(".name").inner_text() == "fetch(https://bad.example) ×3"
    assert row.locator(".gist.bad").count() == 1
    # Their number is in sight.
    turns = [(1.0, calling(("fetch", {"url": f"https://{'long.' * 20}example"})))] * 3
    page = pages.run(record(turns, "q", max_iterations=3))
    count = page.locator(".row.group .times")
    inner, outer = box_of(count), box_of(page.locator(".row.group .name"))
    assert count.inner_text().strip() == "×3"
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    # A failed iteration shows its error.
    row = iterations(pages.run(recorded.failed_run())).last
    assert "bad" in classes(row)
    assert "connection reset by peer" in row.inner_text()
    # An iteration of one step is its row.
    rows = iterations(pages.run(three_entries())).all()
    found = [(row.get_attribute("aria-expanded"), row.get_attribute("data-position")) for row in rows]
    assert found == [(None, "1"), (None, "2"), (None, "3")]
    # Calls are written in one way.
    first = (1.0, calling(("fetch", {"url": "https://a.example", "seconds": 0.5})))
    second = (1.0, calling(("search", {"query": "elms"})))
    page = pages.run(record([first, second, (1.0, answering("Elms."))], "Which?"), "#step=1")
    names = iterations(page).locator(".name").all_inner_texts()
    assert names == ["fetch(url=https://a.example, seconds=0.5)", "search(elms)", "parse → AgentFinish"]
    assert steps(page).locator(".gist").all_inner_texts()[:2] == ["fetch(url=https://a.example, seconds=0.5)"] * 2


@pytest.mark.full
def test_ten_thousand_steps_make_few_rows(pages: Pages) -> None:
    turns = [(0.1, calling(("fetch", {"url": f"https://{at}.example", "seconds": 0.1}))) for at in range(2500)]
    page = pages.run(record(turns, "All?", max_iterations=2500))
    assert iterations(page).last.get_attribute("aria-setsize") == "2501"
    assert page.locator(".row").count() < 60
    width = page.locator("#moment").evaluate("element => element.clientWidth")
    # Models, tools and tokens.
    assert page.locator("#lanes .call, #lanes .used").count() <= 3 * (width + 1)
    moved: float = page.evaluate(read_tables(__file__)["moved"])
    assert where(page) == "9,973 / 10,002"
    # A tenth of this, but for a busy machine.
    assert moved < 3000


@pytest.mark.full
def test_many_calls_are_folded_to_lines(pages: Pages) -> None:
    page = pages.run(recorded.twelve_tools(), "#step=3")
    folded = page.locator(".pair > details")
    assert folded.count() == 12
    assert [one.get_attribute("open") is not None for one in folded.all()].count(True) == 2
    page.locator("button.bar").nth(1).click()
    assert page.locator(".pair.selected > details").get_attribute("open") is not None
    assert "shop1.example" in shown(page, ".pair.selected")


def test_embedded_agents_show_their_tasks_budgets_and_calls(pages: Pages) -> None:
    page = pages.run(recorded.two_agents(), "#step=7")
    assert "elm trees" in shown(page, ".row.current .gist")
    assert "INPUT OF RESEARCH" in shown(page, "#detail").upper()
    press(page, "ArrowRight")
    assert shown(page, ".row.current .number") == "1"
    assert page.locator("#detail .bar", has_text="research.iterations").locator(".count").inner_text() == "1 of 3"
    assert "iteration 2 · research.iterations 1" in shown(page, "#detail .where")
    press(page, "End")
    names = iterations(page).locator(".name").all_inner_texts()
    assert names == ["parse → Ready", "research(elm trees)", "write(about the fungus)", "parse → AgentFinish"]
    answers = iterations(page).locator(".gist").all_inner_texts()[1:]
    assert answers == ["Fungus.", "Elms die of a fungus.", "Elms die of a fungus."]
    assert "RESEARCH: 1 TOOL CALL" in shown(page, "#detail").upper()
    assert "3 hits for elms" in shown(page, "#detail")
    # A folded box hides its nodes and counts its visits.
    box = page.locator(".toggle[aria-label^='research']")
    box.focus()
    press(page, "Enter")
    assert page.locator('[data-node="research.plan"]').is_hidden()
    assert page.locator('[data-node="write.plan"]').is_visible()
    # Each call of a tool passes it, and one is for the other agent.
    assert "visited 2 times" in (box.get_attribute("aria-label") or "")
    assert box.locator(".count").text_content() == "×2"
    assert page.locator(".count[textLength], .notes[textLength]").count() == 0


def title_of(bar: Locator) -> str:
    bar.hover()
    return str(bar.get_attribute("title"))


def three_tools() -> Recording:
    calls = [("fetch", {"url": f"https://{seconds}.example", "seconds": seconds}) for seconds in (1, 2, 3)]
    return record([(2.0, calling(*calls)), (1.0, answering("done"))], "Fetch three.")


def short_calls(count: int, failed: int) -> Recording:
    """Return a run of many short calls of a tool, one of which failed."""
    start, *_ = three_tools().records
    records: list[Record] = [dict(start)]
    for at in range(count):
        spent: Record = {"seconds": 0.01 * (at + 1), "iterations": at + 1, "cost": 0.0, "budgets": {}}
        spent |= dict.fromkeys(("model_calls", "tool_calls", "prompt_tokens", "completion_tokens", "tokens"), 0)
        effect = {"effect": "CallTool", "tool": "fetch"}
        times = {"began": 0.01 * at, "seconds": 0.01, "status": "error" if at == failed else "ok", "observation": "x"}
        node = "dispatch_tools"
        records += [
            {"event": "entered", "node": node, "spent": {**spent, "seconds": 0.01 * at}},
            {"event": "asked", "node": node, "effects": [{**effect, "tool_input": {"url": str(at)}}]},
            {"event": "answered", "node": node, "spent": spent, "replies": [{**effect, **times}]},
            {"event": "moved", "node": node, "outcome": "Observed", "target": "check_return_direct", "value": None},
        ]
    return Recording(records)


def test_bars_lie_on_the_time_of_the_run(pages: Pages) -> None:
    page = pages.run(three_tools())
    bars = [box_of(bar) for bar in page.locator(".tools [data-span]").all()]
    assert len(bars) == 3
    assert len({round(bar["x"], 1) for bar in bars}) == 1
    for times, bar in enumerate(bars, 1):
        assert bar["width"] / bars[0]["width"] == pytest.approx(times, rel=0.02)
    assert len({bar["y"] for bar in bars}) == 3
    first, last = [box_of(bar) for bar in page.locator(".model [data-span]").all()]
    assert first["width"] / last["width"] == pytest.approx(2, rel=0.02)
    assert first["x"] + first["width"] == pytest.approx(bars[0]["x"], abs=1)
    assert last["x"] == pytest.approx(bars[2]["x"] + bars[2]["width"], abs=1)
    assert page.locator("#lanes").get_attribute("aria-label") == "calls in 6.00 s: 2 of models, 3 of tools"
    # Calls that begin at once may have times that differ by the rounding of a float.
    records = [dict(one) for one in three_tools().records]
    answered = [one for one in records if one["event"] == "answered" and "tool" in one["replies"][0]]
    for at, one in enumerate(answered):
        [reply] = one["replies"]
        one["replies"] = [{**reply, "began": reply["began"] - at * 1e-12}]
    lanes = pages.run(Recording(records)).locator(".tools [data-span]").all()
    ordered = sorted(lanes, key=lambda bar: box_of(bar)["y"])
    assert [bar.get_attribute("data-span") for bar in ordered] == ["3.0", "3.1", "3.2"]


def time_of(label: str) -> float:
    """Return the seconds of a label of the time scale."""
    count, unit = label.replace(",", "").split(" ")
    return float(count) * {"ms": 0.001, "s": 1}[unit]


SCALES = [
    pytest.param(seconds, width, marks=() if (seconds, width) == (14.5, 390) else pytest.mark.full)
    for seconds, width in product([0.0007, 0.012, 0.16, 3.0, 14.5, 190.0, 7000.0], [390, 1440, 3840])
]


@pytest.mark.parametrize(("seconds", "width"), SCALES)
def test_time_scale_has_exact_labels(pages: Pages, seconds: float, width: int) -> None:
    run = record([(seconds, answering("done"))], "q")
    page = pages.run(run, size=(width, 900))
    labels = [(time_of(one.inner_text()), box_of(one)["x"]) for one in page.locator("#scale span").all()]
    axis = box_of(page.locator("#scale"))
    assert len(labels) > 1
    for time, left in labels:
        assert (left - axis["x"]) / axis["width"] == pytest.approx(time / seconds, abs=2 / axis["width"])


def test_click_selects_the_call(pages: Pages) -> None:
    page = pages.run(twelve_tools())
    bar = page.locator(".tools [data-span]").nth(4)
    assert title_of(bar) == "fetch(url=https://shop4.example/bad, seconds=1.5) · error · 1.50 s · step 3"
    bar.click()
    assert "step=3&call=4" in fragment(page)
    assert page.locator("#lanes .chosen").all_text_contents() == [""]
    assert "chosen" in classes(bar)
    assert "shop4.example/bad" in shown(page, ".pair.selected")
    # A click beside a bar selects the nearest one.
    box = box_of(page.locator(".tools [data-span]").last)
    page.mouse.click(box["x"] + box["width"] + 3, box["y"] + 2)
    assert "step=3&call=11" in fragment(page)
    press(page, "Home")
    assert page.locator("#lanes .chosen").count() == 0
    # The time of the step is marked.
    page = pages.run(three_tools(), "#step=3")
    longest, marked = box_of(page.locator(".tools [data-span]").last), box_of(page.locator("#now"))
    assert (marked["x"], marked["width"]) == pytest.approx((longest["x"], longest["width"]), abs=1)
    press(page, "Home")
    assert box_of(page.locator("#now"))["x"] == pytest.approx(box_of(page.locator("#moment"))["x"], abs=1)


@pytest.mark.full
def test_strips_show_tokens_and_cost(pages: Pages) -> None:
    recording = three_tools()
    page = pages.run(recording)
    used = page.locator(".strip.tokens .used")
    first, last = [box_of(bar) for bar in used.all()]
    assert first["height"] / last["height"] == pytest.approx(324 / 420, abs=0.05)
    assert title_of(used.first) == "324 tokens · CallModel · 2.00 s · step 1"
    assert page.locator(".strip.cost").count() == 0
    cost = 0.0
    records = [dict(one) for one in recording.records]
    for one in records:
        cost += 0.25 if one["event"] == "answered" and "content" in one["replies"][0] else 0
        if "spent" in one:
            one["spent"] = {**one["spent"], "cost": cost}
    used = pages.run(Recording(records)).locator(".strip.cost .used")
    assert used.count() == 2
    assert title_of(used.first).startswith("0.25 cost")


@pytest.mark.full
def test_failed_pending_and_short_calls(pages: Pages) -> None:
    page = pages.run(failed_run())
    assert page.locator("#lanes .failed").count() == 1
    assert "failed" in title_of(page.locator("#lanes .failed"))
    press(page, "w")
    assert page.locator("#waterfall").is_hidden()
    page.locator("#turn-waterfall").click()
    assert page.locator("#waterfall").is_visible()
    # A pending call is open.
    records = sixty_steps().records
    asked = next(at for at, one in enumerate(records) if one["event"] == "asked" and at > 20)
    pending = pages.run(Recording(records[: asked + 1])).locator("#lanes .open")
    assert pending.count() == 1
    assert "no reply yet" in title_of(pending)
    # A run without calls has no waterfall.
    page = pages.run(Recording(records[:1]))
    assert page.locator("#waterfall").is_hidden()
    assert page.locator("#turn-waterfall").is_hidden()
    # Short calls share bars.
    page = pages.run(short_calls(5000, failed=3100))
    width = box_of(page.locator("#moment"))["width"]
    assert width / 2 < page.locator("#lanes [data-span]").count() < width + 10
    failed = page.locator("#lanes .failed")
    assert failed.count() == 1
    assert box_of(failed)["width"] >= 2
    failed.click()
    assert "step=3101&call=0" in fragment(page)
