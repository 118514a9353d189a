"""The question of a synthesised example: a tool's docstring, with the values of a call in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from graphexec.agents.small.words import words_of

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
_ARTICLES = "a|an|the|some|any|one|another|other|this|given|your|its"
_PREPOSITIONS = "at|that|between|by|for|from|in|into|of|on|per|to|under|with"
_PREPOSITION = re.compile(rf" (?:{_PREPOSITIONS})\b")
# What stands before a parameter that a description names: an article, perhaps with adjectives, or a preposition.
_BEFORE = rf"\b(?:(?:{_ARTICLES}) (?:(?!(?:{_PREPOSITIONS})\b)\S+ ){{0,2}}|(?P<preposition>(?:{_PREPOSITIONS}) ))"
_NOUN = re.compile(r"\b(?:a|an|given) \S+")
# "where a parcel is", of which the question is "Where is a parcel".
_LAST_VERB, _SWAPPED = re.compile(r"(\S+) (is|are)$"), r"\2 \1"
_COUNT = re.compile(r"\btwo \S+")
# "from one currency to another", and what two parameters for it are called.
_PAIR = re.compile(r"\bfrom (?:one|a|an|the)?\b.*? to (?:another|a|an|the other)(?: (?:one|\w+))?$")
_PAIRED = (("from", "to"), ("source", "target"), ("source", "destination"), ("origin", "destination"), ("start", "end"))

# A docstring's clause that says more than the question needs.
_ASIDE = re.compile(
    r"\s*(?:[;:(]|,? (?:such as|for example|for instance|e\.g\.|i\.e\.|using|based on)\b|, (?:which|or|with|and)\b).*"
)
_STOP = re.compile(r"[.!?](?:\s|$)|[。\uff01\uff1f]")
# Characters of a description that are read, and those of a question: a longer sentence says more than that.
_READ, _LONGEST = 2000, 100


def imperative(description: str) -> str:
    """Return the first sentence of a description without asides and full stop: "Return the price of an item"."""
    paragraph = description.strip()[:_READ].partition("\n\n")[0]
    sentence = _STOP.split(" ".join(paragraph.split()), maxsplit=1)[0]
    sentence = re.sub(r"[`*\"]", "", _ASIDE.sub("", sentence) or sentence)
    if len(sentence) > _LONGEST:
        sentence = sentence[:_LONGEST].rpartition(" ")[0] or sentence[:_LONGEST]
    verb, blank, rest = sentence.strip().partition(" ")
    base = verb.removesuffix("es") if verb.casefold().removesuffix("es") in _ASKING else verb.removesuffix("s")
    return f"{base if base.casefold() in _ASKING else verb}{blank}{rest}" or "Use the tool"


def labelled_question(description: str, arguments: Mapping[str, Any]) -> str:
    """Return a question that names each argument: "Convert a value: value 37, from unit yards"."""
    return f"{imperative(description)}{_label(arguments)}." if arguments else natural_question(description, arguments)


def _label(arguments: Mapping[str, Any]) -> str:
    labels = [f"{' '.join(words_of(name)) or name} {_format(value)}" for name, value in arguments.items()]
    return f": {', '.join(labels)}" if labels else ""


def natural_question(description: str, arguments: Mapping[str, Any]) -> str:
    """Return a question as a person would ask it: "What is the price of rucksack?".

    Values take the place of what the description calls them; those that it does not mention follow with their names.
    """
    asking, sentence = _split_verb(imperative(description))
    left = dict(arguments)
    sentence = _place_pair(_place_several(sentence, left), left)
    for name, value in arguments.items():
        # Sentences have no place for the parts of an object.
        if name in left and not isinstance(value, dict) and (found := _find_mention(sentence, name, value)) is not None:
            sentence = _replace(sentence, found, left.pop(name))
    if len(left) == 1 == len(arguments) and not isinstance(next(iter(left.values())), dict):
        for found in [*_NOUN.finditer(sentence)][-1:]:
            sentence = _replace(sentence, found, left.popitem()[1])
    if asking is None:
        return f"{sentence}{_label(left)}."
    return f"{_invert(asking, sentence)}{_label(left)}?"


def _split_verb(sentence: str) -> tuple[str | None, str]:
    """Return the beginning of a question and the rest; without a verb that asks, `None` and all words."""
    verb, _, rest = sentence.partition(" ")
    if verb.casefold() in _ARTICLES.split("|"):
        return "What is", f"{verb.casefold()} {rest}"
    found = _PARTICLES.match(rest)
    rest = rest[found.end() :] if found else rest
    first, _, others = rest.partition(" ")
    if verb.casefold() not in _ASKING or first.casefold() in ("", "if", "whether"):
        return None, sentence
    return (first.capitalize(), others) if first.casefold() in _INTERROGATIVES else ("What is", rest)


def _invert(asking: str, sentence: str) -> str:
    """Return the words of a question: "Where is K-52" for "where K-52 is", and "What are the prices"."""
    if asking != "What is":
        return f"{asking} {_LAST_VERB.sub(_SWAPPED, sentence)}"
    head = _PREPOSITION.split(sentence)[0]
    plural = head.startswith("the ") and re.search("[^sui]s$", head)
    return f"{'What are' if plural else asking} {sentence}"


def _place_several(sentence: str, left: dict[str, Any]) -> str:
    """Replace "two numbers" by both of two arguments."""
    found = _COUNT.search(sentence)
    if found is None or len(left) != 2:  # noqa: PLR2004 - two
        return sentence
    values = _format([*left.values()])
    left.clear()
    return f"{sentence[: found.start()]}{values}{sentence[found.end() :]}"


def _place_pair(sentence: str, left: dict[str, Any]) -> str:
    """Replace "from one unit to another" by both of the arguments that name the two."""
    found = _PAIR.search(sentence)
    for pair in _PAIRED if found else ():
        one, other = (next((name for name in left if words_of(name)[:1] == (word,)), None) for word in pair)
        if found and one is not None and other is not None:
            return f"{sentence[: found.start()]}from {_format(left.pop(one))} to {_format(left.pop(other))}"
    return sentence


def _find_mention(sentence: str, name: str, value: Any) -> re.Match[str] | None:
    """Return where a description lists a value and another one, as in "on or off", or names a parameter."""
    if isinstance(value, str):
        text = re.escape(value)
        if found := re.search(rf"\b(?:{text} or \S+|\S+ or {text})(?!\S)", sentence):
            return found
    words = words_of(name)
    for length in range(len(words), 0, -1):
        for part in (words[-length:], words[:length]):
            # "a domain name" is the parameter `domain`.
            named = rf"{_BEFORE}{' '.join(part)}(?: (?:name|id|number|code))?[.,']*(?!\S)"
            if found := re.search(named, sentence, re.IGNORECASE):
                return found
    return None


def _replace(sentence: str, found: re.Match[str], value: Any) -> str:
    """Return the sentence with the value in that place; "an amount of money" becomes a number alone."""
    rest = sentence[found.end() :]
    if not isinstance(value, str):
        rest = re.sub(r"^ of \S+", "", rest)
    return f"{sentence[: found.start()]}{found.groupdict().get('preposition') or ''}{_format(value)}{rest}"


def _format(value: Any) -> str:
    """Return a value as people write it: "37 and 52", and "lantern 37, rucksack 52". Nested parts are JSON."""
    match value:
        case [*parts] if parts:
            *first, last = map(_format_part, parts)
            return f"{', '.join(first)} and {last}" if first else last
        case {**members} if members:
            return ", ".join(f"{key} {_format_part(one)}" for key, one in members.items())
        case _:
            return _format_part(value)


def _format_part(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
