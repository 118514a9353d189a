"""The question of a run, and its target: the words of the command line, and the standard input."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.files import read_input
from graphexec.errors import did_you_mean
from graphexec.executor.executor import AgentExecutor

# A file with or without an object, and a module with an object.
_FILE_TARGET = re.compile(r"\S.*\.py(:[^\W\d][\w.]*)?")
_MODULE_TARGET = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def split_words(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the target and the question of the command line; `None` for one that was left out.

    One word is a question unless it names an executor that is there. Raises `UsageError`.
    """
    match words:
        case [one]:
            return (one, None) if _is_target(one) else (None, one)
        case [target, question]:
            if _FILE_TARGET.fullmatch(target) or _MODULE_TARGET.fullmatch(target):
                return target, question
            named = question.partition(" ")[0]
            if _FILE_TARGET.fullmatch(question) or _is_target(named):
                raise UsageError(f"the target stands before the question; write graphexec run {question} ...")
            raise UsageError(f"{target!r} is not a target such as my_agent.py:executor; write the question in quotes")
        case _:
            rest = " ".join(words[1:])
            raise UsageError(f"Got unexpected extra arguments ({rest}); write the question in quotes")


def _is_target(word: str) -> bool:
    if _FILE_TARGET.fullmatch(word):
        # A question may end in the name of a file; the name of an object makes it a target.
        return ".py:" in word or Path(word).is_file()
    if not _MODULE_TARGET.fullmatch(word):
        return False
    package = word.partition(":")[0].partition(".")[0]
    if Path(f"{package}.py").is_file() or Path(package).is_dir():
        return True
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(package) is not None
    return False


def read_question() -> str:
    """Return the question on the standard input, which is UTF-8 in any locale. Raises `UsageError`."""
    # A program without a terminal may have no standard input.
    source: TextIO | None = sys.stdin
    try:
        if source is not None and source.isatty():
            print("graphexec: write the question, and end it with Ctrl-D on a line of its own", file=sys.stderr)
        text = read_input()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the standard input is not UTF-8: byte {error.start + 1} is invalid; write the question in UTF-8"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"the standard input cannot be read: {error}; write the question in quotes") from error
    text = text.removeprefix("\ufeff").strip()
    if not text:
        raise UsageError('the standard input is empty; write the question into it, as in echo "..." | graphexec run -')
    return text


def parse_inputs(given: Sequence[str]) -> dict[str, str]:
    """Return the inputs of `--input NAME=TEXT`, by name. Raises `UsageError`."""
    named: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--input {one} has no value; write --input NAME=TEXT")
        if name.strip() in named:
            raise UsageError(f"--input {name.strip()} is set twice; set it once")
        named[name.strip()] = text
    return named


def name_inputs(executor: AgentExecutor, question: str | None, given: Mapping[str, str], target: str) -> dict[str, str]:
    """Return the inputs of a run by name: the question is the one that is not `given`. Raises `UsageError`."""
    # A function as an agent declares no inputs.
    declared = executor.input_keys
    keys = declared or ("input",)
    known = (*keys, *executor.agent.optional_keys)
    for name in given:
        if declared and name not in known:
            near = did_you_mean(name, known, f"it has {', '.join(known)}")
            raise UsageError(f"--input {name} is not an input of {target}; {near}")
    left = [key for key in keys if key not in given]
    if question is None:
        if left and declared:
            options = " ".join(f"--input {key}=..." for key in left)
            raise UsageError(f"{target} lacks the input {', '.join(left)}; add {options}")
        return dict(given)
    match left:
        case [key]:
            return {**given, key: question}
        case []:
            named = keys[0]
            raise UsageError(f"--input {named} and the question are the same input of {target}; leave one out")
        case _:
            first, *others = left
            options = " ".join(f"--input {key}=..." for key in others)
            raise UsageError(
                f"{target} has the inputs {', '.join(keys)}, and the question is one; add {options} for the question "
                f"to be {first}"
            )
