"""The values in a question that may be meant as an argument: a model that copied an example chooses among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphexec._parsing import compile_lazily
from graphexec.agents.small.tool_choice import is_subject

# With more candidates a schema is long, and a question with so many words has more than one value.
_MAX_CANDIDATES = 60
# The most words of a candidate, unless it is quoted or a name.
_MAX_WORDS = 3

_QUOTED = compile_lazily(r"\"[^\"\n]+\"|“[^”\n]+”|„[^“\n]+“|(?<!\w)'[^'\n]+'(?!\w)")
_NAME = compile_lazily(r"[A-Z][\w.-]*\w(?: (?:(?:of|the|de|da|and|von) ){0,2}[A-Z][\w.-]*\w)+")
_TOKEN = compile_lazily(r"[^\s,;:!?()\"“”„]+")
_NUMBER = compile_lazily(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\d.]*\w)")


def find_candidates(schema: Mapping[str, Any], texts: Iterable[str], subjects: frozenset[str]) -> tuple[Any, ...]:
    """Return the values in `texts` that an argument with this schema may have; none if there are too many.

    Of strings these are quoted texts, names, and up to three words in a row. Words that only say what the tool is about
    are left out: its `subjects`, and words such as "the".
    """
    kinds = {one.get("type") for one in (schema, *schema.get("anyOf", ()))}
    values: Iterator[Any] = iter(())
    if "string" in kinds:
        values = (one for text in texts for one in _strings(text, subjects))
    elif "number" in kinds:
        values = (_to_number(one) for text in texts for one in _NUMBER().findall(text))
    elif "integer" in kinds:
        values = (int(one) for text in texts for one in _NUMBER().findall(text) if "." not in one)
    found = tuple(dict.fromkeys(values))
    return found if len(found) <= _MAX_CANDIDATES else ()


def _to_number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _strings(text: str, subjects: frozenset[str]) -> Iterator[str]:
    yield from (found[0][1:-1] for found in _QUOTED().finditer(text))
    yield from _NAME().findall(text)
    words = [word.rstrip(".") for word in _TOKEN().findall(text)]
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MAX_WORDS, len(words)) + 1):
            if not words[end - 1] or is_subject(words[end - 1], subjects):
                break
            yield " ".join(words[start:end])
