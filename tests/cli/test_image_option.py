"""`graphexec run --image`, and the providers that the help of `--model` names."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from graphexec.cli.runs.running import run
from graphexec.models.provider_names import PROVIDERS
from tests.cli.conversations import serving
from tests.cli.terminals import command
from tests.models.pictures import PNG
from tests.parameters import cases

ASK = ("run", "What is it?", "--model", "small", "--agent", "tool_calling")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dot.png").write_bytes(PNG)
    Path("notes.txt").write_text("milk", encoding="utf-8")


def test_images_are_sent_with_the_question() -> None:
    with serving(["A dot."]) as server:
        images = ("--image", "dot.png", "--image", "https://pictures.example/a.png")
        ended = command(*ASK, "--base-url", server.url, *images)
    assert (ended.code, ended.out) == (0, "A dot.\n")
    sent = json.dumps(server.asked[0]["messages"][-1])
    assert "data:image/png;base64," in sent
    assert "https://pictures.example/a.png" in sent
    assert "What is it?" in sent


@cases(
    ("image", "says"),
    [
        ("dog.png", "dog.png cannot be used: No such file or directory; --image takes a file or an https:// address"),
        (".", ". cannot be used: Is a directory; --image takes a file"),
        ("notes.txt", "notes.txt cannot be used: it is not an image; --image takes a file of PNG, JPEG, GIF or WebP"),
        ("ftp://pictures.example/a.png", "a.png cannot be used: it is not an image; --image takes a file"),
    ],
)
def test_wrong_image_is_wrong_usage(image: str, says: str) -> None:
    with serving([]) as server:
        ended = command(*ASK, "--base-url", server.url, "--image", image)
    assert (ended.code, ended.out, server.asked) == (2, "", [])
    assert says in ended.err
    assert ended.err.count("\n") == 1


def test_help_names_every_provider() -> None:
    words = re.split(r"[\s,.]+", get_type_hints(run, include_extras=True)["model"].__metadata__[0].help)
    assert set(PROVIDERS) <= set(words)


def test_image_without_an_end_is_wrong_usage() -> None:
    os.mkfifo("pipe")
    Path("large.png").write_bytes(PNG)
    os.truncate("large.png", 1 << 30)
    for image, fact in (
        ("pipe", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("large.png", "it has more than 100,000,000 bytes"),
    ):
        ended = command(*ASK, "--base-url", "http://127.0.0.1:9", "--image", image)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert f"{image} cannot be used: {fact}; --image takes a file" in ended.err
