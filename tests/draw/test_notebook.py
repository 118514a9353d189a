"""The displays in a notebook of an executor, a machine, a result and a verdict."""

import json
import random
import re
import sys
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

import graphexec as gx
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.layout.placement import lay_out
from graphexec.draw.model.picture import picture_of
from graphexec.draw.notebook import elements, machine
from graphexec.executor import AGENT_EXECUTOR, Ready
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.verify import findings_of
from graphexec.verify.reports.subject import Subject
from tests.draw.browser import Frame, Page, Pages, press
from tests.executor.actors import answer, echo
from tests.kernel.machines import Even, Odd, halve, split, triple
from tests.kernel.test_drafts import incomplete_diamond
from tests.parameters import cases

HOSTILE = (
    """</iframe></textarea></style>"><script>alert('1')</script><img src=x onerror="alert(1)">&amp;\x1b[31m\u202e"""
)


class Formatter:
    """Knows how to show objects of a class, as the formatter of IPython does."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Callable[[Any], dict[str, str]]] = {}

    def for_type_by_name(self, module: str, name: str, function: Callable[[Any], dict[str, str]]) -> None:
        self._functions[module, name] = function

    def __call__(self, value: Any) -> dict[str, str]:
        kind: Any = type(value)
        return self._functions[kind.__module__, kind.__qualname__](value)


shown = Formatter()
gx._register_displays(shown)  # pyright: ignore[reportPrivateUsage]


class Elements(HTMLParser):
    """The elements of a document, as a browser finds them."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def scripted(*replies: str | ModelReply, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=gx.create_tool_calling_agent(ScriptedModel(replies), [echo]), tools=[echo], **options)


def text_of(value: Any) -> str:
    return Elements(shown(value)["text/html"]).text


def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out.cache_clear()
    for name in ("pygraphviz", "resvg_py"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.medium
@cases("value, fact", (scripted("x", max_iterations=7), "costs 1 of 7 iterations"), (AGENT_EXECUTOR, "plan"))
def test_picture_is_shown_with_its_limits(value: Any, fact: str) -> None:
    bundle = shown(value)
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg")
    assert fact in bundle["image/svg+xml"]
    assert bundle["text/plain"] == repr(value)


@cases("value", AGENT_EXECUTOR, scripted("x"))
def test_text_drawing_replaces_a_missing_extra(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_extra(monkeypatch)
    bundle = shown(value)
    assert set(bundle) == {"text/html", "text/vnd.mermaid", "text/plain"}
    assert bundle["text/vnd.mermaid"].startswith("---")
    with pytest.raises(gx.InputError, match=r"pygraphviz, which is missing; pip install 'graphexec-agents\[draw\]'"):
        format(AGENT_EXECUTOR, "svg")
    text = text_of(value)
    assert terminal(picture_of(value.verify())).strip() in text
    assert "pip install 'graphexec-agents[draw]'" in text


def test_large_machine_is_drawn_in_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_EDGES", 3)
    text = text_of(AGENT_EXECUTOR)
    assert "image/svg+xml" not in shown(AGENT_EXECUTOR)
    assert "│ check_return_direct │" in text
    assert text.endswith("10 edges are too many for a picture here; write it to a file with .draw('flow.svg')")


@pytest.mark.medium
def test_result_shows_its_page_in_a_sandbox() -> None:
    result = scripted("Four.").run("2 + 2?")
    bundle = shown(result)
    assert bundle["text/plain"] == repr(result)
    found = Elements(bundle["text/html"])
    (frame,) = [attributes for tag, attributes in found.found if tag == "iframe"]
    assert (frame["sandbox"], frame["allow"]) == ("allow-scripts", "clipboard-write")
    page = frame["srcdoc"] or ""
    assert page.startswith("<!doctype html>")
    assert "connect-src 'none'" in unescape(page)
    assert re.search(r"""(src|href)=["']?(https?:)?//""", page) is None
    assert found.text.startswith("finished Four. · 1 model call · 0 tool calls · ")
    assert found.text.endswith('result.draw("run.html") writes this page to a file')
    reply = ModelReply("", (ToolCall("1", "echo", '{"text": "a"}'),))
    assert text_of(scripted(reply, max_iterations=1).run("?")).startswith("stopped the limit of 1 iteration")
    # A hostile run stays in its frame.
    call = ToolCall("1", "echo", json.dumps({"text": HOSTILE}))
    document = shown(scripted(ModelReply(HOSTILE, (call,)), HOSTILE).run(HOSTILE))["text/html"]
    found = Elements(document)
    assert found.open == []
    assert {tag for tag, _ in found.found} == {"div", "iframe", "span", "code"}
    assert all(not name.startswith("on") for _, attributes in found.found for name in attributes)
    assert document.count("</iframe>") == 1
    assert not set("\x1b\u202e") & set(re.sub("srcdoc=.*?></iframe>", "", document))


@pytest.mark.medium
def test_long_run_shows_how_to_write_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # What does not repeat cannot be packed.
    result = scripted(random.Random(0).randbytes(350_000).hex()).run("?")
    document = shown(result)["text/html"]
    assert len(document) < 3_000
    # The scripts of the page are a part of its size.
    says = r'has 2\.\d MB, too much for a notebook; result\.draw\("run\.html"\) writes it to a file\.$'
    assert re.search(says, Elements(document).text)


def test_result_without_the_extra_is_a_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    result = scripted("Four.").run("2 + 2?")
    without_extra(monkeypatch)
    found = Elements(shown(result)["text/html"])
    assert "iframe" not in {tag for tag, _ in found.found}
    for fact in ("finished Four.", "plan", "pip install 'graphexec-agents[draw]'"):
        assert fact in found.text
    monkeypatch.setattr(elements, "MOST_LINES", 1)
    assert re.search(r"\.\.\. and \d+ more lines", text_of(result))


def test_result_that_cannot_be_drawn_has_its_ending() -> None:
    done = scripted("Four.").run("2 + 2?")
    text = text_of(gx.RunResult(done.ending, done.steps, done.spent, done.limits))
    assert text.startswith("finished Four.")
    assert text.endswith("The result has no journal, so its steps cannot be shown.")
    # Nor can this run be followed again.
    visits: list[object] = []

    def forgetful(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
        return answer("Four.")

    @gx.node
    def impure(ready: Ready) -> gx.AgentFinish:
        visits.append(ready)
        if len(visits) > 1:
            raise LookupError("a second visit")
        return answer("Four.")

    machine = gx.graph(gx.edges(impure, gx.on(gx.AgentFinish, gx.END)), start=impure)
    result = gx.AgentExecutor(agent=forgetful, tools=[]).with_graph(machine).run("?")
    text = text_of(result)
    assert text.startswith("finished Four.")
    assert "The run cannot be drawn: " in text


def test_verdict_is_a_table_of_bounds_or_a_list_of_findings() -> None:
    verdict = AGENT_EXECUTOR.verify(gx.Limits(iterations=4))
    bundle = shown(verdict)
    assert bundle["text/plain"] == str(verdict)
    found = Elements(bundle["text/html"])
    assert [tag for tag, _ in found.found if tag in ("table", "caption")] == ["table", "caption"]
    assert found.text.startswith("PROVED every run ends")
    assert "transitions184*iterations + 2some run reaches it" in found.text
    assert all(assumption in found.text for assumption in verdict.assumptions)
    # A refutation lists its findings.
    verdict = AGENT_EXECUTOR.verify(gx.Limits(iterations=None))
    (finding,) = verdict.findings
    assert text_of(verdict).startswith("REFUTED the table allows an endless run")
    for fact in (finding.code, finding.title, finding.fact, finding.remedy):
        assert fact in text_of(verdict)
    # Of many, only the first are listed.
    text = text_of(Subject("machine", (finding,) * 60))
    assert text.count(finding.code) == 50
    assert "... and 10 more findings; see verdict.findings" in text


def test_unchecked_target_and_unbuilt_machine_show_their_faults() -> None:
    subject = Subject(HOSTILE, (), error=HOSTILE)
    bundle = shown(subject)
    found = Elements(bundle["text/html"])
    assert bundle["text/plain"] == repr(subject)
    assert found.open == []
    assert {tag for tag, _ in found.found} <= {"div", "code", "span"}
    assert "ERROR it could not be checked" in found.text
    assert found.text.count("alert('1')") == 2
    # A machine that could not be built shows its faults.
    machine = incomplete_diamond()
    text = text_of(machine.verify())
    assert text.startswith("REFUTED")
    assert "GX002" in text
    assert shown(machine)["image/svg+xml"].startswith("<svg")
    with pytest.raises(gx.GraphError) as raised:
        gx.graph(gx.edges(split, gx.on(Even, halve) | gx.on(Odd, triple)), start=split)
    text = text_of(Subject("diamond", findings_of(raised.value)))
    assert text.startswith("diamond REFUTED its table cannot be built")


# ---- the page of a run in a cell, whose script runs in the sandbox of the frame


@pytest.fixture
def cell(pages: Pages) -> Page:
    """Return a page with the output of a notebook's cell, as a saved notebook shows it."""
    result = scripted(ModelReply("", (ToolCall("1", "echo", '{"text": "again"}'),)), "Four.").run("2 + 2?")
    return pages.text(f"<!doctype html><meta charset=utf-8><body>{shown(result)['text/html']}</body>")


@pytest.fixture
def frame(cell: Page) -> Frame:
    frame = cell.frames[1]
    frame.wait_for_selector("#position:not(:empty)")
    return frame


def position(frame: Frame) -> str:
    return frame.locator("#position").inner_text()


def test_page_in_a_cell_shows_the_steps(cell: Page, frame: Frame) -> None:
    assert "2 + 2?" in frame.locator("header").inner_text()
    frame.locator("#first").click()
    assert position(frame) == "start"
    for number in range(1, 4):
        press(cell, "ArrowRight")
        assert position(frame).startswith(f"{number} / ")
    assert frame.evaluate("location.href").startswith("about:srcdoc#step=3")
    # Links to steps stay in the frame.
    frame.locator("#first").click()
    press(cell, "ArrowRight", "ArrowRight")
    frame.locator("#detail a.step").first.click()
    assert position(frame).startswith("1 / ")
    assert cell.evaluate("location.href").endswith("page.html")


@pytest.mark.full
def test_page_in_a_cell_has_no_access_to_the_notebook(cell: Page, frame: Frame) -> None:
    assert frame.evaluate("origin") == "null"
    for access in ("parent.document", "localStorage", "document.cookie"):
        assert frame.evaluate(f"(() => {{ try {{ {access}; return false }} catch {{ return true }} }})()")
    # It copies, and changes its colours.
    frame.get_by_role("button", name="copy records").click()
    frame.get_by_role("button", name="copied", exact=True).wait_for()
    before = frame.locator("html").get_attribute("data-theme")
    frame.locator("#list").focus()
    press(cell, "d")
    assert frame.locator("html").get_attribute("data-theme") != before
