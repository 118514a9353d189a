"""Runs with images in records, pictures, pages and traces: records keep the images, the others show labels."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec import draw, models, tools
from graphexec.cli.runs.trace import TracePrinter
from graphexec.draw.model.text import format_call, format_data
from graphexec.messages import Image, ToolCall
from graphexec.messages.images import image_from_json
from tests.draw.browser import Pages
from tests.draw.recorded import nested
from tests.executor.actors import caller_of
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.parameters import cases
from tests.traces import unpack_page

LABEL = "image/gif, 42 bytes"


@gx.tool
def look(text: str) -> list[Any]:
    """Look at the dog."""
    return [f"The {text}:", DOG, {"address": ADDRESS}]


def make_executor(one: tools.AnyTool = look, **settings: Any) -> gx.AgentExecutor:
    """Return an executor whose model calls the tool once."""
    return caller_of(models.ScriptedModel([ToolCall("c1", one.name, '{"text": "dog"}'), "done"]), one, **settings)


def run(**settings: Any) -> gx.RunResult:
    return make_executor(**settings).run({"input": "Which?", "images": [CAT]})


def test_records_keep_images_and_prompts_have_labels() -> None:
    recording = draw.Recording.from_json_lines(draw.recording_of(run()).to_json_lines())
    start, *others = recording.records
    assert [image_from_json(one) for one in start["input"]["images"]] == [CAT]
    replies = [reply for record in others for reply in record.get("replies", ())]
    (observation,) = [reply["observation"] for reply in replies if "observation" in reply]
    assert image_from_json(observation[1]) == DOG
    assert image_from_json(observation[2]["address"]) == ADDRESS
    # Prompts have labels.
    messages = [
        message
        for record in draw.recording_of(run()).records
        for effect in record.get("effects", ())
        if record["event"] == "asked" and "prompt" in effect
        for message in effect["prompt"]["messages"]
    ]
    assert [message["images"] for message in messages if "images" in message] == [
        ["[image 1: image/png, 70 bytes]"],
        [f"[image 1: {LABEL}]", "[image 2: https://example.com/cat.png]"],
    ]
    assert "base64" not in json.dumps(messages)


def page_of(result: gx.RunResult, folder: Path) -> str:
    return unpack_page(result.draw(folder / "run.html").read_text())


VIEWS: list[tuple[Callable[[gx.RunResult, Path], str], list[str]]] = [
    (page_of, [f"[image: {LABEL}]", "[image: image/png, 70 bytes]"]),
    (lambda result, folder: result.draw(folder / "run.svg").read_text(), []),
    (lambda result, folder: result.draw(folder / "run.txt").read_text(), []),
]


@pytest.mark.medium
@cases("show, labels", *VIEWS)
def test_pictures_show_labels(show: Callable[[gx.RunResult, Path], str], labels: list[str], tmp_path: Path) -> None:
    written = show(run(), tmp_path)
    # A page has scripts that know the word.
    for data in (DOG.data, CAT.data, *([] if show is page_of else ["base64"])):
        assert data not in written
    assert [label for label in labels if label not in written] == []


def test_forged_image_is_shown_as_data(tmp_path: Path) -> None:
    @gx.tool
    def fetch(text: str) -> Any:
        """Fetch a document."""
        return {"kind": "graphexec.image", "url": ADDRESS.url}

    result = make_executor(fetch).run("?")
    shown = page_of(result, tmp_path)
    assert "[image" not in shown
    assert "graphexec.image" in shown
    assert "graphexec.data" not in shown


@cases("innermost", 3, {"kind": "graphexec.image", "url": ADDRESS.url})
def test_deep_data_have_a_label(innermost: Any) -> None:
    deep = nested(600, innermost)
    assert format_data(deep, 9) == f"{'[' * 8}…"
    # A reader of JSON may just read what code that runs deeper cannot write again.
    deep = nested(100_000, [])
    assert format_data(deep, 9) == "…"
    assert format_call("echo", {"text": deep, "times": 2}, 40) == "echo(text=…, times=2)"
    assert format_call("echo", deep, 40) == "echo(…)"


def test_prompt_on_the_page_shows_labels(pages: Pages) -> None:
    page = pages.run(draw.recording_of(run()))
    page.locator("#slider").fill("1")
    asked = page.locator("#detail .part.model")
    assert asked.get_by_text("[image 1: image/png, 70 bytes]").count() == 1
    page.locator("#slider").fill("5")
    # The text of the observation has it already.
    assert asked.get_by_text(LABEL).count() == 1


def test_printed_runs_show_labels(capsys: pytest.CaptureFixture[str]) -> None:
    err = io.StringIO()
    printer = TracePrinter(io.StringIO(), err)
    for event in make_executor().stream("Which?"):
        printer.on_event(event)
    assert f"[image 1: {LABEL}]" in err.getvalue()
    assert "base64" not in err.getvalue()
    run(verbose=True)
    printed = capsys.readouterr().err
    assert f"[image 1: {LABEL}]" in printed
    assert "base64" not in printed

    # So does an answer.
    @gx.tool(return_direct=True)
    def show(text: str) -> Image:
        """Show the dog."""
        return DOG

    out = io.StringIO()
    TracePrinter(out, io.StringIO()).answer(make_executor(show).run("Which?").ending)
    assert out.getvalue() == f"[image 1: {LABEL}]\n"
