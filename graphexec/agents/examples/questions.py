"""The question of a synthesised example: a tool's docstring, with the values of a call in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from graphexec.agents.examples.words import words_of

# Verbs that say that a tool answers a question. Others, such as "Set" and "Convert", ask for something to be done.
_ASKING = frozenset(
    (
        *("calculate", "compute", "determine", "display", "estimate", "evaluate", "fetch", "find", "get", "give"),
        *("look", "lookup", "measure", "obtain", "provide", "query", "read", "report", "retrieve", "return"),
        *("search", "show", "tell"),
    )
)
_PARTICLES = frozenset({"up", "out", "back", "for"})
_INTERROGATIVES = frozenset({"how", "what", "when", "where", "which", "who", "why"})
_ARTICLES = frozenset(
    {"a", "an", "the", "some", "any", "one", "another", "other", "this", "that", "given", "your", "its"}
)
# "a domain name" is the parameter `domain`.
_SUFFIXES = (["name"], ["id"], ["number"], ["code"])
_PREPOSITIONS = frozenset(
    {"at", "that", "between", "by", "for", "from", "in", "into", "of", "on", "per", "to", "under", "with"}
)

# A docstring's clause that says more than the question needs.
_ASIDE = re.compile(
    r"\s*(?:[;:(]|,? (?:such as|for example|for instance|e\.g\.|i\.e\.|using|based on)\b|, (?:which|or|with|and)\b).*"
)

# Words, and characters for languages that have no blanks. A longer sentence says more than a question does.
_LONGEST, _WIDEST = 16, 120
# Characters of a description that are read: its first sentence.
_READ = 2000
_STOP = re.compile(r"[.!?](?:\s|$)|[。\uff01\uff1f]")


def imperative(description: str) -> str:
    """Return the first sentence of a description without asides and full stop: "Return the price of an item"."""
    paragraph = description.strip()[:_READ].partition("\n\n")[0]
    sentence = _STOP.split(" ".join(paragraph.split()), maxsplit=1)[0]
    sentence = _ASIDE.sub("", sentence) or sentence
    if len(sentence) > _WIDEST:
        sentence = sentence[:_WIDEST].rpartition(" ")[0] or sentence[:_WIDEST]
    words = sentence.split()
    if not words:
        return "Use the tool"
    words[0] = _base_form(words[0])
    return " ".join(words[:_LONGEST])


def _base_form(verb: str) -> str:
    """Return "Return" for "Returns", and other words unchanged."""
    for ending in ("s", "es"):
        if verb.casefold().endswith(ending) and verb.casefold().removesuffix(ending) in _ASKING:
            return verb[: -len(ending)]
    return verb


def labelled_question(description: str, arguments: Mapping[str, Any]) -> str:
    """Return a question that names each argument: "Convert a value: value 37, from unit yards"."""
    labels = [f"{' '.join(words_of(name)) or name} {_format(value)}" for name, value in arguments.items()]
    return f"{imperative(description)}: {', '.join(labels)}." if labels else natural_question(description, arguments)


def natural_question(description: str, arguments: Mapping[str, Any]) -> str:
    """Return a question as a person would ask it: "What is the price of rucksack?".

    Values take the place of what the description calls them; those that it does not mention follow with their names.
    """
    words = imperative(description).split()
    asking, words = _split_verb(words)
    left = dict(arguments)
    words = _place_pair(_place_several(words, left), left)
    for name, value in arguments.items():
        # Sentences have no place for the parts of an object.
        if isinstance(value, dict):
            continue
        if name in left and (found := _find_choice(words, value) or _find_mention(words, name)) is not None:
            words = _insert(words, found, left.pop(name))
    is_placed = len(left) == 1 == len(arguments) and not any(isinstance(one, dict) for one in left.values())
    if is_placed and (found := _find_noun(words)) is not None:
        words = _insert(words, found, left.popitem()[1])
    labels = ", ".join(f"{' '.join(words_of(name)) or name} {_format(value)}" for name, value in left.items())
    end = f": {labels}" if labels else ""
    if asking is None:
        return f"{' '.join(words)}{end}."
    return f"{' '.join(_invert(asking, words))}{end}?"


def _insert(words: list[str], found: slice, value: Any) -> list[str]:
    """Return the words with the value in that place; "an amount of money" becomes a number alone."""
    rest = words[found.stop :]
    if not isinstance(value, str) and rest[:1] == ["of"]:
        rest = rest[2:]
    return [*words[: found.start], _format(value), *rest]


def _invert(asking: str, words: list[str]) -> list[str]:
    """Return the words of a question: "Where is K-52" for "where K-52 is", and "What are the prices"."""
    if asking != "What is":
        return [asking, *words[:-2], words[-1], words[-2]] if words[-1:] in (["is"], ["are"]) else [asking, *words]
    head = next((place for place, word in enumerate(words) if word in _PREPOSITIONS), len(words))
    noun = words[head - 1] if head else ""
    plural = words[:1] == ["the"] and noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
    return ["What are" if plural else asking, *words]


def _split_verb(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the beginning of a question and the rest; without a verb that asks, `None` and all words."""
    if words[0].casefold() in _ARTICLES:
        return "What is", [words[0].casefold(), *words[1:]]
    if words[0].casefold() not in _ASKING:
        return None, words
    rest = words[1:]
    while rest and rest[0].casefold() in _PARTICLES:
        rest = rest[1:]
    if not rest:
        return None, words
    if rest[0].casefold() in _INTERROGATIVES:
        return rest[0].capitalize(), rest[1:]
    if rest[0].casefold() in ("if", "whether"):
        return None, words
    return "What is", rest


def _place_several(words: list[str], left: dict[str, Any]) -> list[str]:
    """Replace "two numbers" by both of two arguments."""
    counts = {"two": 2, "three": 3}
    for place, word in enumerate(words):
        if counts.get(word.casefold()) == len(left) and place + 1 < len(words):
            values = [_format(value) for value in left.values()]
            left.clear()
            return [*words[:place], ", ".join(values[:-1]), "and", values[-1], *words[place + 2 :]]
    return words


# "from one currency to another", and what two parameters for it are called.
_PAIR = re.compile(r"\bfrom (?:one|a|an|the)?\b.*? to (?:another|a|an|the other)(?: (?:one|\w+))?$")
_PAIRED = (("from", "to"), ("source", "target"), ("source", "destination"), ("origin", "destination"), ("start", "end"))


def _place_pair(words: list[str], left: dict[str, Any]) -> list[str]:
    """Replace "from one unit to another" by both of the arguments that name the two."""
    text = " ".join(words)
    if _PAIR.search(text) is None:
        return words
    for pair in _PAIRED:
        names = [next((name for name in left if words_of(name)[:1] == (one,)), None) for one in pair]
        first, second = names
        if first is not None and second is not None:
            values = _format(left.pop(first)), _format(left.pop(second))
            return _PAIR.sub(lambda _: f"from {values[0]} to {values[1]}", text).split()  # noqa: B023 - called at once
    return words


def _find_choice(words: list[str], value: Any) -> slice | None:
    """Return where a description lists a value and another one: "on or off"."""
    for place in range(1, len(words) - 1):
        if words[place] == "or" and value in (words[place - 1], words[place + 1]):
            return slice(place - 1, place + 2)
    return None


def _find_mention(words: list[str], name: str) -> slice | None:
    """Return where a description names a parameter: an article, perhaps adjectives, and words of its name."""
    wanted = words_of(name)
    for length in range(len(wanted), 0, -1):
        for phrase in (wanted[-length:], wanted[:length]):
            for place in range(len(words) - length + 1):
                if tuple(map(_plain, words[place : place + length])) == phrase:
                    start = _noun_start(words, place)
                    if start < place or (place and _plain(words[place - 1]) in _PREPOSITIONS):
                        end = place + length
                        return slice(start, end + (words[end : end + 1] in _SUFFIXES))
    return None


def _noun_start(words: list[str], noun: int) -> int:
    """Return where the article before a noun is; the noun itself if it has none nearby."""
    start = noun
    for place in range(noun - 1, max(-1, noun - 4), -1):
        if _plain(words[place]) in _PREPOSITIONS:
            break
        if _plain(words[place]) in _ARTICLES:
            start = place
    return start


def _find_noun(words: list[str]) -> slice | None:
    """Return the last phrase of an indefinite article and what follows it, at most two words."""
    for place in range(len(words) - 2, -1, -1):
        if _plain(words[place]) in ("a", "an", "given"):
            return slice(place, place + 2)
    return None


def _plain(word: str) -> str:
    return word.casefold().strip(".,'\"`*")


def _format(value: Any) -> str:
    """Return a value as people write it: "37 and 52", and "lantern 37, rucksack 52". Nested parts are JSON."""
    match value:
        case str():
            return value
        case [*parts] if parts:
            *first, last = map(_format_part, parts)
            return f"{', '.join(first)} and {last}" if first else last
        case {**members} if members:
            return ", ".join(f"{key} {_format_part(one)}" for key, one in members.items())
        case _:
            return _format_part(value)


def _format_part(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
