"""A sequence diagram says what was asked and answered in a run: each once, in order, as Mermaid and as SVG."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.draw import Recording
from graphexec.draw.interaction import Interaction, Message, Note, Together, interaction_of, messages_in
from graphexec.draw.records import Record
from graphexec.draw.sequence import sequence_mermaid
from graphexec.draw.sequence_svg import sequence_svg
from graphexec.errors import InputError
from tests.draw.recorded import cut_short, recordings

SVG = "{http://www.w3.org/2000/svg}"


class Said(NamedTuple):
    """A message as a reader sees it."""

    source: str
    target: str
    kind: str


def said_in(shown: Interaction) -> list[Said]:
    names = [one.name for one in shown.participants]
    return [Said(names[one.source], names[one.target], one.kind) for one in shown.messages]


def expected(recording: Recording) -> list[Said]:
    """What the records say, told anew: a call and its reply stand together."""
    told = [Said("User", "Agent", "call")]
    asked: list[Record] = []
    for record in recording.records:
        if record["event"] == "asked":
            told += pending(asked)
            asked = record["effects"]
        if record["event"] == "answered":
            for index, effect in enumerate(asked):
                name = asked_of(effect)
                replies = record["replies"]
                reply = replies[min(index, len(replies) - 1)]
                cut = isinstance(reply.get("value"), dict) and "limit" in reply["value"]
                wrong = cut or reply.get("status", "ok") != "ok"
                told += [Said("Agent", name, "call"), Said(name, "Agent", "failure" if wrong else "reply")]
            asked = []
    told += pending(asked)
    if recording.result is not None:
        told.append(Said("Agent", "User", "reply" if recording.result["status"] == "answered" else "failure"))
    return told


def pending(asked: list[Record]) -> list[Said]:
    return [Said("Agent", asked_of(effect), "call") for effect in asked]


def asked_of(effect: Record) -> str:
    return str(effect["tool"]) if effect["effect"] == "CallTool" else "Model"


@given(recordings(), st.integers(0, 60))
def test_each_call_and_each_reply_stands_in_it_once_in_order(recording: Recording, records: int) -> None:
    for run in (recording, cut_short(recording, records)):
        shown = interaction_of(run)
        assert said_in(shown) == expected(run)
        assert [one.number for one in shown.messages] == list(range(1, len(shown.messages) + 1))


ARROW = re.compile(r"p(\d+)(->>|-->>|--x)([+-])p(\d+): (.*)")
KINDS = {"->>": "call", "-->>": "reply", "--x": "failure"}
ENTITY = re.compile(r"#(\d+);")


def decoded(text: str) -> tuple[str, ...]:
    return tuple(ENTITY.sub(lambda found: chr(int(found[1])), line) for line in text.split("<br/>"))


def read_mermaid(text: str) -> list[tuple[Said, tuple[str, ...]]]:
    """The messages of Mermaid's text, by its grammar; all that begins ends at most once, and all frames end."""
    first, *lines = text.splitlines()
    assert first == "sequenceDiagram"
    names: dict[str, str] = {}
    active = Counter[str]()
    frames = 0
    found: list[tuple[Said, tuple[str, ...]]] = []
    for line in map(str.strip, lines):
        if arrow := ARROW.fullmatch(line):
            source, how, sign, target, label = arrow.groups()
            active[target if sign == "+" else source] += 1 if sign == "+" else -1
            assert min(active.values()) >= 0
            found.append((Said(names[source], names[target], KINDS[how]), decoded(label)))
        elif declared := re.fullmatch(r"(?:participant|actor) p(\d+) as (.*)", line):
            names[declared[1]] = decoded(declared[2])[0]
        elif line.startswith("par "):
            frames += 1
        elif line == "end":
            frames -= 1
        else:
            assert re.fullmatch(r"and|autonumber( \d+)?|Note over p\d+(,p\d+)?: .+", line)
        assert frames in (0, 1)
    assert frames == 0
    return found


@given(recordings())
def test_mermaid_gives_back_the_messages(recording: Recording) -> None:
    shown = interaction_of(recording)
    lines = [one.lines or (" ",) for one in shown.messages]
    assert read_mermaid(sequence_mermaid(recording)) == list(zip(said_in(shown), lines, strict=True))


@dataclass
class Drawn:
    """A message of an SVG: its number, what it says, and the tips or crosses of its arrow."""

    number: int
    title: str
    tips: int
    labels: list[str]


def read_svg(text: str) -> Iterator[Drawn]:
    for group in ElementTree.fromstring(text).iter(f"{SVG}g"):
        number = group.get("data-message")
        if number is None:
            continue
        crosses = [one for one in group.iter(f"{SVG}path") if "l10,10" in (one.get("d") or "")]
        labels = [one.text or "" for one in group.iter(f"{SVG}text") if one.get("class") == "label"]
        tips = len(list(group.iter(f"{SVG}polygon"))) + len(crosses)
        yield Drawn(int(number), group.findtext(f"{SVG}title") or "", tips, labels)


@given(recordings())
def test_svg_has_one_arrow_for_each_message_and_a_title_that_says_it(recording: Recording) -> None:
    shown = interaction_of(recording)
    drawn = list(read_svg(sequence_svg(recording)))
    assert [one.number for one in drawn] == [one.number for one in shown.messages]
    for one, message, said in zip(drawn, shown.messages, said_in(shown), strict=True):
        assert one.tips == 1
        assert one.title == f"{message.number}. {said.source} → {said.target}: {message.title}"
        assert "".join(one.labels).replace(" ", "") == "".join(message.lines).replace(" ", "")


@given(recordings())
def test_all_of_an_svg_stands_within_its_sheet(recording: Recording) -> None:
    root = ElementTree.fromstring(sequence_svg(recording))
    group = root.find(f"{SVG}g")
    assert group is not None
    moved = re.fullmatch(r"translate\((.*) (.*)\)", group.get("transform", ""))
    assert moved is not None
    wide, high = float(root.get("width", "")), float(root.get("height", ""))
    for rect in group.iter(f"{SVG}rect"):
        left, top = float(rect.get("x", "")) + float(moved[1]), float(rect.get("y", "")) + float(moved[2])
        assert left >= 0
        assert top >= 0
        assert left + float(rect.get("width", "")) <= wide
        assert top + float(rect.get("height", "")) <= high


@given(recordings(), st.integers(2, 12))
def test_with_a_most_the_first_and_the_last_stay_and_no_reply_stands_alone(recording: Recording, most: int) -> None:
    whole, shown = interaction_of(recording).messages, interaction_of(recording, most=most)
    kept = shown.messages
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (whole[0], whole[-1])
    left_out = [one.text for one in shown.items if isinstance(one, Note) and one.kind == "left out"]
    missing = len(whole) - len(kept)
    assert left_out == ([f"{missing:,} message{'' if missing == 1 else 's'} left out"] if missing else [])
    # It reads the signs, too: nothing ends that has not begun.
    assert len(read_mermaid(sequence_mermaid(recording, most=most))) == len(kept)
    assert [one.number for one in read_svg(sequence_svg(recording, most=most))] == [one.number for one in kept]


def test_a_most_that_leaves_no_end_is_refused(a_run: Recording) -> None:
    with pytest.raises(InputError, match="most is 1, which leaves no first and last message; give 2 or more"):
        sequence_mermaid(a_run, most=1)
