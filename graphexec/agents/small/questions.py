"""The question of a synthesised example: a tool's docstring, with the values of a call in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from graphexec.agents.small.values import words_of

# Verbs that say that a tool answers a question. Others, such as "Set" and "Convert", ask for something to be done.
_ASKING = frozenset(
    (
        *("calculate", "compute", "determine", "display", "estimate", "evaluate", "fetch", "find", "get", "give"),
        *("look", "lookup", "measure", "obtain", "provide", "query", "read", "report", "retrieve", "return"),
        *("search", "show", "tell"),
    )
)
_PARTICLES = re.compile(r"(?:(?:up|out|back|for) )+")
_INTERROGATIVES = frozenset({"how", "what", "when", "where", "which", "who", "why"})
# "where a parcel is", of which the question is "Where is a parcel".
_LAST_VERB, _SWAPPED = re.compile(r"(\S+) (is|are)$"), r"\2 \1"
_ARTICLES = "a|an|the|some|any|one|another|other|this|given|your|its"
# What stands before a parameter that a description names: an article, perhaps with adjectives.
_BEFORE = rf"\b(?:{_ARTICLES}) (?:(?!(?:at|by|for|from|in|into|of|on|to|with)\b)\S+ ){{0,2}}"
# "two numbers", and "from one currency to another".
_TWO = re.compile(r"\btwo \S+|\bone \S+ (to) another(?: one)?\b")
_OF = re.compile(r"^ of \S+")
_NOUN = re.compile(r"\b(?:a|an|given) \S+")

# A docstring's clause that says more than the question needs.
_ASIDE = re.compile(
    r"\s*(?:[;:(]|,? (?:such as|for example|for instance|e\.g\.|i\.e\.|using|based on)\b|, (?:which|or|with|and)\b).*"
)
_STOP = re.compile(r"[.!?](?:\s|$)|[。\uff01\uff1f]")
# Characters of a description that are read, and those of a question: a longer sentence says more than that.
_READ, _LONGEST = 2000, 100


def labelled_question(description: str, arguments: Mapping[str, Any]) -> str:
    """Return a question that names each argument: "Convert a value: value 37, from unit yards"."""
    if not arguments:
        return natural_question(description, arguments)
    return f"{_imperative(description)}{_label(arguments)}."


def natural_question(description: str, arguments: Mapping[str, Any]) -> str:
    """Return a question as a person would ask it: "What is the price of rucksack?".

    Values take the place of what the description calls them; those that it does not mention follow with their names.
    """
    asking, sentence = _split_verb(_imperative(description))
    left: dict[str, Any] = {}
    for name, value in arguments.items():
        found = _find_mention(sentence, name)
        if found is None and len(arguments) == 1:
            found = next(reversed([*_NOUN.finditer(sentence)]), None)
        if found is None:
            left[name] = value
        else:
            # "an amount of money" becomes a number alone.
            rest = sentence[found.end() :] if isinstance(value, str) else _OF.sub("", sentence[found.end() :])
            sentence = f"{sentence[: found.start()]}{_format(value)}{rest}"
    if len(left) == 2 and (found := _TWO.search(sentence)):  # noqa: PLR2004 - two
        one, other = map(_format, left.values())
        sentence, left = f"{sentence[: found.start()]}{one} {found[1] or 'and'} {other}{sentence[found.end() :]}", {}
    return f"{asking} {_LAST_VERB.sub(_SWAPPED, sentence)}{_label(left)}?" if asking else f"{sentence}{_label(left)}."


def _label(arguments: Mapping[str, Any]) -> str:
    labels = [f"{' '.join(words_of(name)) or name} {_format(value)}" for name, value in arguments.items()]
    return f": {', '.join(labels)}" if labels else ""


def _imperative(description: str) -> str:
    """Return the first sentence of a description without asides and full stop: "Return the price of an item"."""
    paragraph = description.strip()[:_READ].partition("\n\n")[0]
    sentence = _STOP.split(" ".join(paragraph.split()), maxsplit=1)[0]
    sentence = re.sub(r"[`*\"]", "", _ASIDE.sub("", sentence) or sentence)
    if len(sentence) > _LONGEST:
        sentence = sentence[:_LONGEST].rpartition(" ")[0] or sentence[:_LONGEST]
    verb, blank, rest = sentence.strip().partition(" ")
    base = verb.removesuffix("es") if verb.casefold().removesuffix("es") in _ASKING else verb.removesuffix("s")
    return f"{base if base.casefold() in _ASKING else verb}{blank}{rest}" or "Use the tool"


def _split_verb(sentence: str) -> tuple[str, str]:
    """Return the beginning of a question and the rest; without a verb that asks, nothing and all words."""
    verb, _, rest = sentence.partition(" ")
    if verb.casefold() in _ARTICLES.split("|"):
        return "What is", f"{verb.casefold()} {rest}"
    found = _PARTICLES.match(rest)
    rest = rest[found.end() :] if found else rest
    first, _, others = rest.partition(" ")
    if verb.casefold() not in _ASKING or first.casefold() in ("", "if", "whether"):
        return "", sentence
    return (first.capitalize(), others) if first.casefold() in _INTERROGATIVES else ("What is", rest)


def _find_mention(sentence: str, name: str) -> re.Match[str] | None:
    """Return where a description names a parameter, with all of its words or some."""
    words = words_of(name)
    for length in range(len(words), 0, -1):
        for part in (words[-length:], words[:length]):
            # "a domain name" is the parameter `domain`.
            named = rf"{_BEFORE}{' '.join(part)}(?: (?:name|id|number|code))?[.,']*(?!\S)"
            if found := re.search(named, sentence, re.IGNORECASE):
                return found
    return None


def _format(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
