"""The growth of every reader of replies with the length of hostile texts: the time for twice the length.

    python benchmarks/reading.py [--length CHARACTERS] [--reader NAME] [--check]

The readers are those of the agents, whole and while the reply streams in pieces of 1,000 characters, and what is below
them. Each of 16 texts is a beginning, and a piece that is repeated. Times are of the processor, the better of two, and
ratios below a tenth of a second are left out. A ratio of 2 is linear; with `--check` the exit status is 1 for one above
2.2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from pydantic import BaseModel

from graphexec import ParseError, tool
from graphexec._parsing.json import read_json
from graphexec._parsing.reasoning import split_reasoning
from graphexec.agents import react, structured, tool_calling
from graphexec.agents.reading.answers import AnswerReader, make_label_reader, make_text_reader, skip_reasoning
from graphexec.integrations.langchain.formats import json_actions, labelled_text, self_ask, xml
from graphexec.messages import ModelReply
from graphexec.models.http.draft import StopCutter
from graphexec.nodes.output import UnreadableOutputError, make_output_kind

Reader = Callable[[str], object]

MOST = 2.2
# Seconds. The ratio of shorter times is not that of the reader.
SHORT = 0.1
# Characters of a piece of a reply that streams.
PIECE = 1_000

TEXTS = {
    "</think>": ("", "</think>"),
    "<think>x</think>": ("", "<think>x</think>"),
    "quoted tags": ("<think>", "`</think>`"),
    "fences": ("", "```\n"),
    "braces": ("", "{"),
    "objects": ("", '{"a": 1}'),
    "open objects": ("", '{"action": "search", "a": '),
    "escaped quotes": ('{"action": "', '\\"'),
    "Action:": ("Action: search\nAction Input: x ", "Action:"),
    "Final Answer:": ("", "Final Answer: x\n"),
    "Observation:": ("", "Observation: x\n"),
    "Thought:": ("Final Answer: x", "\nThought: x"),
    "Question: in fences": ("Final Answer: x\n", "```\nQuestion: x\n```\n"),
    "blanks": ("**Final Answer:", " "),
    "calls in fences": ("", "```\n<tool_call>\n```\n"),
    "search(": ("", "search("),
}


@tool
def search(query: str) -> str:
    """Search."""
    return query


class Output(BaseModel):
    """The type of an answer."""

    a: int


def whole(read: Callable[[ModelReply], object]) -> Reader:
    """Return what reads a whole reply."""
    return lambda text: read(ModelReply(text, finish_reason="length"))


def pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a reply that streams."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def streamed(make: Callable[[], AnswerReader]) -> Reader:
    """Return what reads a reply while it streams."""

    def read(text: str) -> None:
        take = skip_reasoning(make)
        for piece in pieces(text):
            take(piece)

    return read


def cut(text: str) -> None:
    """Cut a reply at a stop string while it streams."""
    cutter = StopCutter(("\nObservation:",))
    for piece in pieces(text):
        cutter.take(piece)
    cutter.rest()


NAMES = ("search",)
READERS: dict[str, Reader] = {
    "split_reasoning": split_reasoning,
    "read_json": read_json,
    "output_type": make_output_kind(Output).read,
    "stop strings": cut,
    "structured": whole(partial(structured.read, tools=[search])),
    "tool_calling": whole(partial(tool_calling.read, tools=[search])),
    "self_ask": whole(self_ask.read),
    "react": whole(partial(react.read, names=NAMES)),
    "mrkl": whole(partial(labelled_text.read_mrkl, names=NAMES)),
    "conversational": whole(partial(labelled_text.read_conversational, names=NAMES)),
    "chat": whole(partial(json_actions.read_chat, names=NAMES)),
    "structured_chat": whole(partial(json_actions.read_structured_chat, names=NAMES)),
    "json_chat": whole(partial(json_actions.read_json_chat, names=NAMES)),
    "xml": whole(partial(xml.read, names=NAMES)),
    "react, streamed": streamed(make_label_reader),
    "structured, streamed": streamed(structured.make_answer_reader),
    "tool_calling, streamed": streamed(make_text_reader),
}


def seconds(read: Reader, text: str) -> float:
    """Return the processor time that a reader takes."""
    began = time.process_time()
    with suppress(ParseError, ValueError, UnreadableOutputError):
        read(text)
    return time.process_time() - began


def measure(read: Reader, name: str, length: int) -> tuple[float, float]:
    """Return the time for a text of twice the length, and its ratio to the time for the length."""
    beginning, piece = TEXTS[name]
    short, long = (beginning + piece * (characters // len(piece)) for characters in (length, 2 * length))
    once = min(seconds(read, short) for _ in range(2))
    twice = min(seconds(read, long) for _ in range(2))
    return twice, twice / max(once, 1e-9)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--reader", choices=READERS, action="append")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    failed = False
    print(f"| reader | seconds, at most | {' | '.join(f'`{name}`' for name in TEXTS)} |")
    print(f"|---|---:|{'---:|' * len(TEXTS)}")
    for reader in given.reader or READERS:
        found = [measure(READERS[reader], name, given.length) for name in TEXTS]
        ratios = [ratio if taken > SHORT else 0.0 for taken, ratio in found]
        failed = failed or max(ratios) > MOST
        cells = [f"{ratio:.2f}" if ratio else "" for ratio in ratios]
        print(f"| {reader} | {max(found)[0]:.2f} | {' | '.join(cells)} |", flush=True)
    sys.exit(given.check and failed)


if __name__ == "__main__":
    main()
