"""The waterfall of a run in a browser: a bar for each call on the run's time, and what the calls used."""

from itertools import product

import pytest

from graphexec.draw import Recording
from graphexec.draw.runs.data import Record
from tests.draw.browser import Locator, Pages, box_of, classes, fragment, press, shown
from tests.draw.debugged import answering, calling, failed_run, record, sixty_steps, twelve_tools


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
