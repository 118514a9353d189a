"""The choice between a call and an answer: whether a model must call a tool before it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any

from graphexec._arguments import Constraint, validate
from graphexec._parsing import compile_lazily
from graphexec.agents.small.known_values import fold
from graphexec.tools import AnyTool

# How an agent names the choice of which a question decides.
INFERRED = "inferred"

# Models that answer many questions themselves, unless they must call a tool first. On ten tools with one argument,
# SmolLM2 with 135 million parameters gave 7 right answers of its own accord, and 8 when it had to call them; on 43
# tasks with three tools 26, and 28.
_TINY = compile_lazily(r"smollm2?[-:]135m", re.IGNORECASE)

# Digits, but not those of <3 and :3; a quoted text, an address, a path, or a name with an extension.
_DATA = compile_lazily(
    r"(?<![<:;])\d"
    r"|\"[^\"]+\"|[“„«「『]|(?<!\w)['\u2018][^'\u2019]+['\u2019](?!\w)"
    r"|\w@\w|://|\\\w|(?<!\w)~?/\w|\w/[\w.-]+/|\w\.[a-z]{2,5}\b"
)

_WORD = compile_lazily(r"[^\W\d_]{3,}")
# Words share a stem if they begin with four equal letters, and their endings are short: humid and humidity.
_STEM = 4
_ENDING = 3


@cache
def _stop_words() -> frozenset[str]:
    """Return the words that name no subject, and those of greetings."""
    return frozenset(
        _WORD().findall(
            "about after afternoon again all also and answer any are ask available been before being best between "
            "both but can could day did does doing done each else evening every everything example find for from get "
            "give given gives good great had has have hello help here hey his how into its just know let like list "
            "look lot make many may mean more morning most much must name need new nice night not now off one only "
            "other our out output please query question result results return returns say see set she should show "
            "some something string such tell text than thank thanks that the their them then there these they thing "
            "things this those time today tool tools two use used useful user uses using value values very want was "
            "way week welcome well were what when where which who why will with without word work world would yes yet "
            "you your"
        )
    )


def validate_tool_choice(given: object, names: Sequence[str]) -> None:
    """Raise `InputError` unless `given` is auto, required, or the name of a tool."""
    choices = ("auto", *(["required"] if names else []), *names)
    words = f"auto, required, or the name of a tool: {', '.join(names)}" if names else "auto, since there are no tools"
    validate("", ("tool_choice", given, Constraint(words, lambda value: value in choices)))


def is_tiny(model: object) -> bool:
    """Return whether a model, by its name, answers questions itself that it should ask a tool."""
    return _TINY().search(str(getattr(model, "name", ""))) is not None


def find_subjects(tools: Sequence[AnyTool]) -> frozenset[str]:
    """Return the words of the tools' names, descriptions and parameters that name a subject."""
    return frozenset(word for tool in tools for text in _describe(tool) for word in _subjects_in(text))


def needs_tool(question: str, subjects: frozenset[str]) -> bool:
    """Return whether a question shows that a tool is meant.

    It does if it has data in it (digits, a quoted text, a path or an address), or one of the tools' `subjects`, also
    with another ending. Anything else, such as thanks in any language, does not.
    """
    return _DATA().search(question) is not None or any(
        _share_stem(one, other) for one in _subjects_in(question) for other in subjects
    )


def _describe(tool: AnyTool) -> Iterator[str]:
    yield from (tool.name, tool.description)
    properties: Mapping[str, Mapping[str, Any]] = tool.parameters["properties"]
    for name, schema in properties.items():
        yield f"{name} {schema.get('description', '')} {schema.get('enum', '')}"


def _subjects_in(text: str) -> frozenset[str]:
    return frozenset(_WORD().findall(fold(text))) - _stop_words()


def _share_stem(one: str, other: str) -> bool:
    stem = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one == other or (stem >= _STEM and max(len(one), len(other)) - stem <= _ENDING)
