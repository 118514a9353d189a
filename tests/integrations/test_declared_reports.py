"""Reports and pictures of any declared graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.draw import FORMATS, Picture
from graphexec.integrations.declared import (
    END,
    START,
    DeclaredGraph,
    Guard,
    Judgement,
    judge,
    to_picture,
    to_subject,
)
from graphexec.verify.reports import document, github, sarif, text
from tests.verify.sarif_subset import validate

NAMES = ["a", "b.c", "we ird", "x{y}", "é<&>"]


@st.composite
def graphs(draw: st.DrawFn, depth: int = 1) -> DeclaredGraph:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    targets = st.frozensets(st.sampled_from([*names, END]), min_size=1, max_size=2)

    def some() -> list[str]:
        return sorted(draw(st.frozensets(st.sampled_from(names)))) if names else []

    # Any: the fields have many types.
    fields: dict[str, Any] = {
        "limit": draw(st.sampled_from([None, 2, 25])),
        "guards": {name: Guard(f"Limit({name})", draw(st.integers(1, 5))) for name in some()},
        "counters": {name: frozenset({"{key}"}) for name in some()},
        "open": tuple(f"the router of {name}" for name in some()),
        "silent": tuple(some()),
        "subgraphs": {name: draw(graphs(depth - 1)) for name in some()} if depth else {},
        "unseen": ("one, by the tool task",),
    }
    return DeclaredGraph("g", {name: draw(targets) for name in (START, *names)}, **fields)


def all_of(judgement: Judgement) -> Iterator[Judgement]:
    yield judgement
    for inner in judgement.inner.values():
        yield from all_of(inner)


@pytest.mark.medium
@given(graphs(), st.sampled_from([None, 0, 2, 10**6]))
def test_reports_agree_with_the_answer(graph: DeclaredGraph, max_rounds: int | None) -> None:
    judgement = judge(graph, max_rounds=max_rounds)
    subject = to_subject(judgement, "g", max_rounds=max_rounds)
    errors = [finding for finding in subject.findings if finding.severity == "error"]
    assert (subject.status == "proved") is judgement.passes is (not errors)
    assert f"g  {subject.status.upper()}  " in text([subject])
    assert github([subject]).count("::error ") == len(errors)
    assert json.loads(document([subject]))["targets"][0]["declared"]["ending"] == judgement.status
    validate(json.loads(sarif([subject])))
    picture = to_picture(judgement)
    assert Picture.from_data(picture.to_data()) == picture
    assert all(FORMATS[how](picture) for how in ("mermaid", "dot", "text"))
    # A red box is on a loop that has no bound.
    if any(box.mark for box in picture.boxes):
        assert any(one.own not in ("ends", "bounded") for one in all_of(judgement))
