"""Runs with images in records, pictures, pages and traces: records keep the images, the others show labels."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec.cli.runs.trace import TracePrinter
from graphexec.draw import Recording, recording_of, sequence_mermaid, timeline
from graphexec.draw.runs.labels import format_call, format_data, format_reply
from graphexec.messages import Image, ToolCall
from graphexec.messages.images import image_from_json
from graphexec.models import ScriptedModel
from tests.draw.browser import Browser, open_page
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.parameters import cases

LABEL = "image/gif, 42 bytes"


@gx.tool
def look(text: str) -> list[Any]:
    """Look at the dog."""
    return [f"The {text}:", DOG, {"address": ADDRESS}]


def run(**settings: Any) -> gx.RunResult:
    model = ScriptedModel([ToolCall("c1", "look", '{"text": "dog"}'), "done"])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [look]), tools=[look], **settings)
    return executor.run({"input": "Which?", "images": [CAT]})


def test_records_keep_images() -> None:
    recording = Recording.from_json_lines(recording_of(run()).to_json_lines())
    start, *others = recording.records
    assert [image_from_json(one) for one in start["input"]["images"]] == [CAT]
    (observation,) = [
        reply["observation"] for record in others for reply in record.get("replies", ()) if "observation" in reply
    ]
    assert image_from_json(observation[1]) == DOG
    assert image_from_json(observation[2]["address"]) == ADDRESS


def test_prompts_in_records_have_labels() -> None:
    messages = [
        message
        for record in recording_of(run()).records
        for effect in record.get("effects", ())
        if record["event"] == "asked" and "prompt" in effect
        for message in effect["prompt"]["messages"]
    ]
    assert [message["images"] for message in messages if "images" in message] == [
        ["[image 1: image/png, 70 bytes]"],
        [f"[image 1: {LABEL}]", "[image 2: https://example.com/cat.png]"],
    ]
    assert "base64" not in json.dumps(messages)


@cases("suffix", ["html", "svg", "md"])
def test_no_picture_contains_base64(suffix: str, tmp_path: Path) -> None:
    written = run().draw(tmp_path / f"run.{suffix}").read_text()
    assert DOG.data not in written
    assert CAT.data not in written


def test_diagrams_of_a_run_show_labels() -> None:
    result = run()
    assert "[image 1: image/gif" in sequence_mermaid(result)
    assert "base64" not in sequence_mermaid(result) + timeline(result)


def test_forged_image_is_shown_as_data(tmp_path: Path) -> None:
    @gx.tool
    def fetch(text: str) -> Any:
        """Fetch a document."""
        return {"kind": "graphexec.image", "url": ADDRESS.url}

    model = ScriptedModel([ToolCall("c1", "fetch", '{"text": ""}'), "done"])
    result = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [fetch]), tools=[fetch]).run("?")
    page = result.draw(tmp_path / "run.html").read_text()
    for shown in (page, sequence_mermaid(result), timeline(result, width=200)):
        assert "[image" not in shown
        assert "graphexec.image" in shown
        assert "graphexec.data" not in shown


@cases("innermost", [3, {"kind": "graphexec.image", "url": ADDRESS.url}])
def test_deep_data_have_a_label(innermost: Any) -> None:
    deep = functools.reduce(lambda inner, _: [inner], range(600), innermost)
    assert format_data(deep, 9) == f"{'[' * 8}…"


def test_too_deep_data_are_cut() -> None:
    """A reader of JSON may just read what code that runs deeper cannot write again."""
    deep: list[Any] = functools.reduce(lambda inner, _: [inner], range(100_000), [])
    assert format_data(deep, 9) == "…"
    assert format_call("echo", {"text": deep, "times": 2}, 40) == "echo(text=…, times=2)"
    assert format_call("echo", deep, 40) == "echo(…)"
    assert format_reply({"observation": deep}, 40) == "…"


def test_page_shows_labels(tmp_path: Path) -> None:
    page = run().draw(tmp_path / "run.html").read_text()
    assert f"[image: {LABEL}]" in page
    assert "[image: image/png, 70 bytes]" in page


def test_prompt_on_the_page_shows_labels(browser: Browser, tmp_path: Path) -> None:
    page = run().draw(tmp_path / "run.html")
    with open_page(browser, page.as_uri()) as one:
        one.page.locator("#slider").fill("1")
        asked = one.page.locator("#detail .part.model")
        assert asked.get_by_text("[image 1: image/png, 70 bytes]").count() == 1
        one.page.locator("#slider").fill("5")
        # The text of the observation has it already.
        assert asked.get_by_text(LABEL).count() == 1
        assert one.faults == []


def test_trace_shows_labels() -> None:
    err = io.StringIO()
    printer = TracePrinter(io.StringIO(), err)
    model = ScriptedModel([ToolCall("c1", "look", '{"text": "dog"}'), "done"])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [look]), tools=[look])
    for event in executor.stream("Which?"):
        printer.on_event(event)
    assert f"[image 1: {LABEL}]" in err.getvalue()
    assert "base64" not in err.getvalue()


def test_image_as_an_answer_is_printed_as_a_label() -> None:
    @gx.tool(return_direct=True)
    def show(text: str) -> Image:
        """Show the dog."""
        return DOG

    model = ScriptedModel([ToolCall("c1", "show", '{"text": ""}')])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [show]), tools=[show])
    out = io.StringIO()
    TracePrinter(out, io.StringIO()).answer(executor.run("Which?").ending)
    assert out.getvalue() == f"[image 1: {LABEL}]\n"


def test_verbose_run_prints_labels(capsys: pytest.CaptureFixture[str]) -> None:
    run(verbose=True)
    printed = capsys.readouterr().err
    assert f"[image 1: {LABEL}]" in printed
    assert "base64" not in printed
