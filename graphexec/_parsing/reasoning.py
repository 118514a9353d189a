"""Separate the reasoning that a model writes in tags, such as `<think>`, from its answer.

Reasoning stands at the beginning of a reply: in tags, or up to a closing tag whose opening tag the prompt contained, or
up to the end if the tag is never closed. A tag anywhere else is text, and so is a closing tag in quotes, in code, or
within a line between blanks: an answer may speak of tags.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

# `<think>`: DeepSeek R1, Qwen 3 and most others; `<seed:think>`: Seed-OSS; `[THINK]`: Magistral.
_NAMES = "(?:think|thinking|thought|seed:think)"
_OPENING = rf"(?:<{_NAMES}>|\[THINK\])"
_CLOSING = rf"(?:</{_NAMES}>|\[/THINK\])"
_MOST_BLANKS = 40
_FIRST = re.compile(rf"\s{{0,{_MOST_BLANKS}}}+{_OPENING}", re.IGNORECASE)
_NEXT = re.compile(rf"\s*+{_OPENING}", re.IGNORECASE)
_END = re.compile(_CLOSING, re.IGNORECASE)
_TAG = re.compile(rf"(?P<opening>{_OPENING})|{_CLOSING}", re.IGNORECASE)
# The beginning of a tag at the end of the received text.
_LONGEST_TAG = len("</seed:think>")
_TAG_BEGUN = re.compile(rf"[<\[][/a-z:]{{0,{_LONGEST_TAG}}}\Z", re.IGNORECASE)
# In the strings of JSON, a tag is text.
_JSON = re.compile(r"\s*+[{\[]")
_QUOTE = re.compile(r'(?<!\\)"')
_BESIDE = frozenset(" \t`'\"“”「」«»()<>*,.;:!?")
# Tags after these are text, so that the search is linear.
_MOST_TAGS = 20


class Parts(NamedTuple):
    """The reasoning of a reply, and the rest of it. `reasoning` is `None` if the reply has none."""

    reasoning: str | None
    content: str


def split_reasoning(text: str) -> Parts:
    """Return the reasoning at the beginning of a reply and the rest. Linear in the length of the text."""
    if "<" not in text and "[" not in text:
        # No tag: this is faster than a search.
        return Parts(None, text)
    reasoning: list[str] = []
    position = 0
    if not _FIRST.match(text):
        closing = _find_unopened(text)
        if closing is None:
            return Parts(None, text)
        reasoning.append(text[: closing.start()])
        position = closing.end()
    while opening := _NEXT.match(text, position):
        closing = _END.search(text, opening.end())
        reasoning.append(text[opening.end() : closing.start() if closing else len(text)])
        position = closing.end() if closing else len(text)
    return Parts("\n\n".join([part.strip() for part in reasoning if part.strip()]), text[position:].lstrip())


def _find_unopened(text: str) -> re.Match[str] | None:
    """Return the closing tag of reasoning that the prompt has opened."""
    for tag in islice(_TAG.finditer(text), _MOST_TAGS):
        if not _is_mention(text, tag):
            return None if tag["opening"] else tag
    return None


def _is_mention(text: str, tag: re.Match[str]) -> bool:
    return _is_text_around(text, tag.start(), tag.end())


def _is_text_around(text: str, start: int, end: int) -> bool:
    """Return whether a tag is in code, in a string of JSON, or within a line between blanks, quotes or punctuation."""
    around = text[max(0, start - 1) : start], text[end : end + 1]
    if all(character in _BESIDE for character in around) or text.count("```", 0, start) % 2 == 1:
        return True
    return _JSON.match(text) is not None and len(_QUOTE.findall(text, 0, start)) % 2 == 1


class ReasoningSplitter:
    """Separates reasoning from content while a reply is received, in time linear in its length.

    `restarted` becomes true when a closing tag shows that all content so far was reasoning which the prompt had opened.
    """

    __slots__ = ("_before", "_state", "_tags", "_waiting", "restarted")

    def __init__(self) -> None:
        self.restarted = False
        # "start", "reasoning", "between" two blocks, "content", or "answer": content in which no tag counts.
        self._state: str = "start"
        self._waiting = ""
        # The content so far, and its tags: a closing tag may still show that it is reasoning.
        self._before: list[str] = []
        self._tags = 0

    def take(self, piece: str) -> tuple[str, str]:
        """Return the reasoning and the content that a piece adds. The beginning of what may be a tag is held back."""
        self._waiting += piece
        reasoning: list[str] = []
        content: list[str] = []
        more = True
        while more:
            if self._state == "reasoning":
                text, more = self._take_reasoning()
                reasoning.append(text)
            elif self._state == "content":
                text, more = self._take_content()
                content = [] if self.restarted else [*content, text]
            elif self._state == "answer":
                content.append(self._waiting)
                self._waiting, more = "", False
            else:
                more = self._begin()
        return "".join(reasoning), "".join(content)

    @property
    def in_content(self) -> bool:
        """True after the reasoning, if there is any."""
        return self._state in ("content", "answer")

    @property
    def waiting_text(self) -> str:
        """The content that is held back so far."""
        return self._waiting if self.in_content else ""

    def rest(self) -> str:
        """Return the content that was held back, when the reply has ended."""
        if self._state == "content" and self._waiting:
            text, _ = self._take_content(last=True)
            return "" if self.restarted else text + self._take_waiting(len(self._waiting))
        rest = self._take_waiting(len(self._waiting))
        return "" if self._state == "reasoning" else rest

    def _begin(self) -> bool:
        """Find out what the waiting text begins with. Return false if that takes more text."""
        if self._state == "between":
            self._waiting = self._waiting.lstrip()
        if found := _FIRST.match(self._waiting):
            self._state, self._waiting = "reasoning", self._waiting[found.end() :]
            return True
        begun = self._waiting.lstrip()
        if len(self._waiting) - len(begun) <= _MOST_BLANKS and (begun == "" or _TAG_BEGUN.match(begun)):
            return False
        self._state = "answer" if self._state == "between" else "content"
        return True

    def _take_reasoning(self) -> tuple[str, bool]:
        found = _END.search(self._waiting)
        if found is None:
            return self._release(), False
        inner = self._waiting[: found.start()]
        self._state, self._waiting = "between", self._waiting[found.end() :]
        return inner, True

    def _take_content(self, *, last: bool = False) -> tuple[str, bool]:
        tag = _TAG.search(self._waiting)
        if tag is None or (tag.end() == len(self._waiting) and not last):
            # The character behind a tag decides whether the tag is text.
            text = self._release() if tag is None else self._take_waiting(tag.start())
            self._before.append(text)
            return text, False
        following = self._waiting[tag.end() : tag.end() + 1]
        text = self._take_waiting(tag.end())
        self._before = ["".join((*self._before, text))]
        end = len(self._before[0])
        self._tags += 1
        is_text = _is_text_around(self._before[0] + following, end - len(tag[0]), end)
        if not is_text and not tag["opening"]:
            self._state, self.restarted = "between", True
        elif not is_text or self._tags == _MOST_TAGS:
            self._state = "answer"
        return text, True

    def _release(self) -> str:
        """Return the waiting text without the beginning of what may be a tag, which goes on waiting."""
        begun = _TAG_BEGUN.search(self._waiting, max(0, len(self._waiting) - _LONGEST_TAG))
        return self._take_waiting(begun.start() if begun else len(self._waiting))

    def _take_waiting(self, end: int) -> str:
        text, self._waiting = self._waiting[:end], self._waiting[end:]
        return text
