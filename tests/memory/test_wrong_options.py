"""Invalid options raise an error of one line that names the option, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphexec.errors import InputError
from graphexec.memory import (
    BufferMemory,
    FileHistory,
    MemoryHistory,
    SQLiteHistory,
    SummaryMemory,
    TokenWindowMemory,
    WindowMemory,
)
from graphexec.models import MemoryCache, OpenAICompatible, ScriptedModel
from tests.parameters import cases

A_HISTORY = "give MemoryHistory(), FileHistory(path) or SQLiteHistory(path, conversation=name)"
MODEL = ScriptedModel([])

# Any: wrong on purpose, here and below.
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    *(
        (make, {option: wrong}, f"{owner} has {option}={wrong!r}; give a whole number, 0 or more")
        for wrong in (-1, True, 2.0, "3")
        for make, owner, option in [
            (WindowMemory, "WindowMemory", "turns"),
            (TokenWindowMemory, "TokenWindowMemory", "max_tokens"),
            (partial(SummaryMemory, MODEL), "SummaryMemory", "keep_turns"),
        ]
    ),
    *(
        (BufferMemory, {"history": wrong}, f"BufferMemory has history={wrong!r}; {A_HISTORY}")
        for wrong in ("chat_history", list[Any](), None, Path("turns.jsonl"), MemoryCache())
    ),
    (BufferMemory, {"history": MemoryHistory}, f"BufferMemory has history=MemoryHistory, a class; {A_HISTORY}"),
    *(
        (BufferMemory, {option: 3}, f"BufferMemory has {option}=3; give a string")
        for option in ("key", "input_key", "output_key", "human", "ai")
    ),
    (BufferMemory, {"as_messages": "yes"}, "BufferMemory has as_messages='yes'; give True or False"),
    (partial(TokenWindowMemory, 9), {"count": "gpt-4o"}, "TokenWindowMemory has count='gpt-4o'; give a function from"),
    (SummaryMemory, {"model": "gpt-4o"}, "SummaryMemory has model='gpt-4o'; give a model, such as create_model("),
    (SummaryMemory, {"model": OpenAICompatible}, "SummaryMemory has model=OpenAICompatible, a class; give a model"),
    (SummaryMemory, {"model": MemoryHistory()}, "SummaryMemory has model=<MemoryHistory: 0 turns>; give a model"),
    (
        partial(SummaryMemory, MODEL),
        {"prompt": 3},
        "the prompt is 3; give a string",
    ),
    (
        partial(SummaryMemory, MODEL),
        {"timeout": 0},
        "SummaryMemory has timeout=0; give seconds above 0, or None for none",
    ),
    (partial(SummaryMemory, MODEL), {"summaries": None}, f"SummaryMemory has summaries=None; {A_HISTORY}"),
    *(
        (make, {"path": wrong}, f"{owner} has path={wrong!r}; give a path, as a string or a Path")
        for wrong in (3, None, b"turns", "")
        for make, owner in [(FileHistory, "FileHistory"), (partial(SQLiteHistory, conversation="me"), "SQLiteHistory")]
    ),
    (partial(SQLiteHistory, "turns"), {"conversation": 7}, "SQLiteHistory has conversation=7; give a string"),
]


@cases(("make", "options", "message"), WRONG)
def test_a_wrong_option_is_named_with_its_remedy(
    make: Callable[..., object], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        make(**options)
