"""Mermaid's own parser reads the messages of our sequence diagrams."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings

from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.sequence import sequence_mermaid
from tests.browser.mermaid import messages, visible_lines
from tests.draw.browser import Page
from tests.draw.readers import read_sequence
from tests.draw.recorded import recordings
from tests.parameters import examples

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def recorded() -> list[Recording]:
    """Random runs, made in a thread, since the browser's event loop allows no other in its own."""
    found: list[Recording] = []

    @settings(max_examples=examples(100, 20), database=None)
    @given(recordings())
    def keep(recording: Recording) -> None:
        found.append(recording)

    with ThreadPoolExecutor() as threads:
        threads.submit(keep).result()
    return found


def test_mermaid_reads_messages_in_order(recorded: list[Recording], mermaid_page: Page) -> None:
    for recording in recorded:
        drawn = sequence_mermaid(recording)
        expected = [(*one, visible_lines(*lines)) for one, lines in read_sequence(drawn)]
        found = messages(mermaid_page, drawn)
        assert [(source, target, kind, visible_lines(*lines)) for source, target, kind, lines in found] == expected
