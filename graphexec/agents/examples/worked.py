"""A worked example: a question with its solution, shown to a model as a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A question with its solution: tool calls as `(tool, arguments, observation)`, and the answer."""

    question: str
    calls: tuple[tuple[str, Mapping[str, Any], str], ...]
    answer: str
