"""Separate the reasoning that a model writes in tags, such as `<think>`, from its answer.

Reasoning stands at the beginning of a reply: in tags, or up to a closing tag without an opening one, because a prompt
may end with that, or up to the end if its tag is never closed. A closing tag ends it wherever it stands. After an
opening tag, only a tag that is alone in its quotes is text: thoughts have quotes that are never closed.

But an answer may speak of tags. In quotes and in code within a line, tags are text, and outside of reasoning also in a
fence, in a string of JSON, in the arguments of a call, and between an opening tag and the end of its line. After an
opening tag that begins or ends a later line, all is text.
"""

from __future__ import annotations

import re

from graphexec._parsing import INVISIBLE, compile_lazily, match_end
from graphexec._parsing.json import find_end, find_open_string

# `<think>`: DeepSeek R1, Qwen 3 and most others; `<reasoning>`: Bedrock; `<seed:think>`: Seed-OSS; `[THINK]`:
# Magistral; `<mm:think>`: MiniMax; `<longcat_think>`: LongCat.
_NAMES = "(?:think|thinking|thought|thoughts|reasoning|(?:seed|mm|antml):think(?:ing)?|longcat_think)"
_OPENING = rf"(?:<{_NAMES}>|\[THINK\])"
_CLOSING = rf"(?:</{_NAMES}>|\[/THINK\])"
# What servers without the template of a model leave before a reply.
_ROLES = (
    *("assistant:", "assistant\n", "<|im_start|>assistant", "<|assistant|>", "<\uff5cassistant\uff5c>"),
    *("<|start_header_id|>assistant<|end_header_id|>", "<start_of_turn>model"),
)
_LONGEST_ROLE = max(map(len, _ROLES))
# Before the first tag; after more whitespace, the text is content at once, so that an answer is not held back.
_WHITESPACE = rf"(?:\s|{INVISIBLE}){{0,40}}+"
_BEFORE = rf"{_WHITESPACE}(?:(?:{'|'.join(map(re.escape, _ROLES))}){_WHITESPACE})?+"
_FIRST = compile_lazily(rf"{_BEFORE}{_OPENING}", re.IGNORECASE)
_BEGINNING = compile_lazily(_BEFORE, re.IGNORECASE)
_SPACE = compile_lazily(r"\s*+")
_END = compile_lazily(_CLOSING, re.IGNORECASE)
_TAG = compile_lazily(rf"(?P<opening>{_OPENING})|{_CLOSING}", re.IGNORECASE)
# The beginning of a tag at the end of the received text.
_LONGEST_TAG = len("</thinking>")
_TAG_BEGUN = compile_lazily(rf"[<\[][/a-z:_]{{0,{_LONGEST_TAG}}}\Z", re.IGNORECASE)
# Code and quotations within a line. A quote after a letter or a digit is an apostrophe, or stands for inches.
_QUOTED = compile_lazily(
    r"""
    (?<!`)(?P<code>`{1,3})(?!`)[^\n]*?(?<!`)(?P=code)(?!`)
    | (?<!\w)"(?:[^"\\\n]|\\.)*"
    | (?<!\w)'[^'\n]*'(?!\w)
    | [“„][^“”\n]*[“”] | «[^»\n]*» | 「[^」\n]*」 | 『[^』\n]*』
    """,
    re.VERBOSE,
)
_OPENING_QUOTE = compile_lazily("[`\"'“„«「『]")
_QUOTES = "`\"'“”„«»「」『』"
# Characters of its line in which the quotes before and after a tag are looked for: of a long line only these, so that
# the search is linear and little text is held back.
_REACH_BEFORE = 500
_REACH_AFTER = 100
# A fence begins or ends with a line of its own; three backquotes within a line are code.
_FENCE = compile_lazily(r"^[ \t>*+-]{0,8}```+[^`\n]*\n", re.MULTILINE)
# The beginning of JSON that is a reply, or the call after a mark such as `<tool_call>`.
_JSON = compile_lazily(
    r"(?:\A|<[^<>\n]{1,99}>|\[TOOL_CALLS\](?:[\w.-]{1,99}(?:\[ARGS\])?)?)\s*+(?=[{\[]\s*+\{?\s*+[\"'“„‘])"
)
_CALL_TAG = compile_lazily(r"<(?:function=|invoke\s|(?P<argument>parameter))[^<>\n]{1,99}>|</parameter>", re.IGNORECASE)
# After these tags, the next one is not in quotes, and tags in content are text, so that the search is linear.
_MAX_TAGS = 20
# After these blocks of reasoning, all is content.
_MAX_BLOCKS = 1_000


def split_reasoning(text: str) -> tuple[str | None, str]:
    """Return the reasoning at the beginning of a reply, `None` if it has none, and the rest. Linear in the length."""
    if "<" not in text and "[" not in text:
        # No tag: this is faster than a search.
        return None, text
    splitter = ReasoningSplitter()
    splitter.take(text)
    splitter.rest()
    if not splitter.blocks:
        return None, text
    blocks = (text[start:end].strip() for start, end in splitter.blocks)
    return "\n\n".join(block for block in blocks if block), text[splitter.content_start :]


class ReasoningSplitter:
    """Separates reasoning from content while a reply is received, in time linear in its length.

    `blocks` are the positions at which each block of reasoning begins and ends. `restarts` counts the closing tags that
    have shown all content so far to be reasoning which the prompt had opened.
    """

    __slots__ = (
        *("_at", "_before", "_begun", "_end", "_line", "_opened", "_quoted", "_state", "_tags", "_text", "blocks"),
        "restarts",
    )

    def __init__(self) -> None:
        self.restarts = 0
        self.blocks: list[tuple[int, int]] = []
        # "start", "reasoning", "between" two blocks, "content", or "answer": content in which no tag counts.
        self._state: str = "start"
        # The position at which the reasoning or the content begins, and that of the end of all received text.
        self._begun = self._end = 0
        # The received text, of which the part from `_at` on is waiting.
        self._text = ""
        self._at = 0
        # The line before the waiting text, the tags in content so far, and those in quotes in this block of reasoning.
        self._line = ""
        self._tags = self._quoted = 0
        # The content so far, which a closing tag may still show to be reasoning, and the end of its last opening tag.
        self._before: list[str] = []
        self._opened: int | None = None

    def take(self, piece: str) -> tuple[str, str]:
        """Return the reasoning and the content that a piece adds.

        The beginning of what may be a tag is held back, and a tag that may be in quotes.
        """
        self._text = self._text[self._at :] + piece
        self._at = 0
        self._end += len(piece)
        return self._advance(last=False)

    def rest(self) -> str:
        """Return the content that was held back, when the reply has ended."""
        return self._advance(last=True)[1]

    @property
    def in_content(self) -> bool:
        """True after the reasoning, if there is any."""
        return self._state in ("content", "answer")

    @property
    def content_start(self) -> int:
        """The position at which the content begins; before that, the first one at which it may begin."""
        return self._begun if self.in_content else self._position

    @property
    def waiting_text(self) -> str:
        """The content that is held back so far."""
        return self._text[self._at :] if self.in_content else ""

    @property
    def _position(self) -> int:
        """The position at which the waiting text begins."""
        return self._end - len(self._text) + self._at

    def _advance(self, *, last: bool) -> tuple[str, str]:
        reasoning: list[str] = []
        content: list[str] = []
        more = True
        while more:
            if self._state == "reasoning":
                text, more = self._take_reasoning(last=last)
                reasoning.append(text)
            elif self._state == "content":
                restarts = self.restarts
                text, more = self._take_content(last=last)
                content.append(text)
                if self.restarts != restarts:
                    content.clear()
            elif self._state == "answer":
                content.append(self._take_until(len(self._text)))
                more = False
            else:
                more = self._begin(last=last)
        return "".join(reasoning), "".join(content)

    def _begin(self, *, last: bool) -> bool:
        """Find out what the waiting text begins with. Return false if that takes more text."""
        if self._state == "between":
            self._at = match_end(_SPACE(), self._text, self._at)
        if found := _FIRST().match(self._text, self._at):
            self._take_until(found.end())
            self._state, self._quoted = "reasoning", 0
        else:
            begun = match_end(_BEGINNING(), self._text, self._at)
            lowered = self._text[begun : begun + _LONGEST_ROLE + 1].lower()
            may_be_role = any(role.startswith(lowered) for role in _ROLES)
            if (may_be_role or _TAG_BEGUN().match(self._text, begun)) and not last:
                return False
            self._state, self._before, self._opened = "content", [], None
        self._begun = self._position
        self._line = ""
        return True

    def _take_reasoning(self, *, last: bool) -> tuple[str, bool]:
        tag = _END().search(self._text, self._at)
        quoted = False if tag is None or self._quoted == _MAX_TAGS else self._is_quoted(tag, last=last)
        if tag is None or quoted is None:
            text = self._release(tag, last=last)
            if last:
                self.blocks.append((self._begun, self._end))
            return text, False
        self._quoted += 1
        if quoted:
            return self._take_until(tag.end()), True
        inner = self._take_until(tag.start())
        self.blocks.append((self._begun, self._position))
        self._take_until(tag.end())
        self._end_block()
        return inner, True

    def _take_content(self, *, last: bool) -> tuple[str, bool]:
        tag = _TAG().search(self._text, self._at)
        quoted = None if tag is None else self._is_quoted(tag, last=last)
        if tag is None or quoted is None:
            text = self._release(tag, last=last)
            self._before.append(text)
            return text, False
        text = self._take_until(tag.end())
        self._before = ["".join((*self._before, text))]
        self._tags += 1
        if not quoted:
            self._look_at(tag, self._before[0].removesuffix(tag[0]))
        if self._tags >= _MAX_TAGS and self._state == "content":
            self._state = "answer"
        return text, True

    def _look_at(self, tag: re.Match[str], before: str) -> None:
        """Find out what a tag shows that is not in quotes."""
        if len(_FENCE().findall(before)) % 2 == 1 or _is_in_json(before) or _is_in_argument(before):
            return
        if tag["opening"]:
            begins_line = not before.rpartition("\n")[2].strip()
            if begins_line or self._text[self._at : self._at + 1] in {"", "\n"}:
                self._state = "answer"
            self._opened = len(before)
        elif self._opened is None or "\n" in before[self._opened :]:
            self.restarts += 1
            self.blocks.append((self._begun, self._begun + len(before)))
            self._end_block()

    def _end_block(self) -> None:
        self._state = "between"
        if len(self.blocks) == _MAX_BLOCKS:
            self._state, self._begun = "answer", self._position

    def _is_quoted(self, tag: re.Match[str], *, last: bool) -> bool | None:
        """Return whether a tag in the waiting text is in quotes or in code; `None` if that takes more text."""
        after = self._text[tag.end() : tag.end() + _REACH_AFTER]
        line = _cut_to_line(self._line + self._text[self._at : tag.start()])
        may_be_quoted = _OPENING_QUOTE().search(line) is not None
        complete = last or "\n" in after or len(after) >= (_REACH_AFTER if may_be_quoted else 1)
        if not complete:
            return None
        around = line + tag[0] + after.partition("\n")[0]
        quotations = _QUOTED().finditer(around) if may_be_quoted else ()
        quotation = next((found[0] for found in quotations if found.start() < len(line) < found.end()), "")
        return quotation.strip(_QUOTES) == tag[0] if self._state == "reasoning" else quotation != ""

    def _release(self, tag: re.Match[str] | None, *, last: bool) -> str:
        """Return the waiting text up to a tag, or to the beginning of what may be a tag, unless it is the last."""
        end = len(self._text)
        begun = None if last else tag or _TAG_BEGUN().search(self._text, max(self._at, end - _LONGEST_TAG))
        return self._take_until(begun.start() if begun else end)

    def _take_until(self, end: int) -> str:
        text, self._at = self._text[self._at : end], end
        self._line = _cut_to_line(self._line + text)
        return text


def _is_in_json(text: str) -> bool:
    """Return whether a text ends in a string of JSON that is the reply, or a call in it."""
    position = 0
    while found := _JSON().search(text, position):
        end = find_end(text, found.end())
        if end is None:
            return find_open_string(text[found.end() :]) is not None
        position = end
    return False


def _is_in_argument(text: str) -> bool:
    """Return whether a text ends in the argument of a call in tags, which is not closed."""
    before, last = (None, None, *_CALL_TAG().finditer(text))[-2:]
    if before is None or last is None or before["argument"] or not last["argument"]:
        return False
    return not text[before.end() : last.start()].strip()


def _cut_to_line(text: str) -> str:
    """Return the last line of a text, or its end if it is long."""
    return text.rpartition("\n")[2][-_REACH_BEFORE:]
