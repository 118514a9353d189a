"""Mermaid itself reads in a sequence diagram who asked whom in the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from graphexec.draw.runs.interaction import interaction_of
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.sequence import sequence_mermaid
from tests.browser.mermaid import messages, seen
from tests.draw.recorded import messages_in, recordings

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def recorded() -> list[Recording]:
    """Random runs, made before there is a browser: its event loop allows no other in its thread."""
    found: list[Recording] = []

    @settings(max_examples=100, database=None)
    @given(recordings())
    def keep(recording: Recording) -> None:
        found.append(recording)

    keep()
    return found


def test_the_messages_of_runs_are_read_in_their_order(recorded: list[Recording], mermaid_page: Page) -> None:
    for recording in recorded:
        shown = interaction_of(recording)
        names = [one.name for one in shown.participants]
        said = [(names[one.source], names[one.target], one.kind, seen(*one.lines)) for one in messages_in(shown)]
        found = messages(mermaid_page, sequence_mermaid(recording))
        assert [(source, target, kind, seen(*lines)) for source, target, kind, lines in found] == said
