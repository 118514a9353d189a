"""Parse the text of a reply: an action after its labels, an answer after its label, fences and quotes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from graphexec._parsing import INVISIBLE, compile_lazily, match_end
from graphexec._parsing.json import find_end
from graphexec.actions import Decision
from graphexec.agents.reading.json_text import FENCE
from graphexec.agents.reading.labels import (
    ACTION,
    FINAL_ANSWER,
    INPUT,
    Spelling,
    find_last,
    read_text_after,
)
from graphexec.agents.reading.turns import ReplyText, Value, find_value_after
from graphexec.errors import ParseError
from graphexec.messages import ModelReply, separate_reasoning

MISSING_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
MISSING_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"
BOTH = "Parsing LLM output produced both a final answer and a parse-able action"
SEVERAL = "Decide on one action at a time, with one 'Action:' and one 'Action Input:'."


def reject_empty(reply: object) -> None:
    """Raise `ParseError` for a model's reply with neither calls nor text, as `has_text` has it: it is no answer."""
    if not isinstance(reply, ModelReply) or reply.tool_calls or has_text(separate_reasoning(reply).content):
        return
    why = "ask again"
    observation = "You gave neither an answer nor a tool call. Answer now, or call a tool."
    if reply.finish_reason == "length":
        why = "it was cut at the token limit; allow longer replies with max_tokens"
    elif reply.finish_reason == "invalid_call":
        why = "the provider could not read the call that the model wrote; ask again"
        observation = "Your tool call could not be read. Call the tool again, with valid JSON as its arguments."
    has = "reasoning, but neither" if reply.reasoning else "neither"
    raise ParseError(f"the reply has {has} an answer nor a call: {why}", observation=observation)


class LabelledAction(NamedTuple):
    """The labels of an action and of its input."""

    action: re.Match[str]
    input: re.Match[str]


def find_action(text: str, spelling: Spelling | None = None) -> LabelledAction | None:
    """Return the first `Action:` with an `Action Input:` in a spelling, by default in the strictest that matches."""
    for one in Spelling if spelling is None else (spelling,):
        action = ACTION.patterns[one].search(text)
        given = INPUT.patterns[one].search(text, action.end()) if action else None
        if action and given:
            return LabelledAction(action, given)
    return None


def find_answer(text: str, spelling: Spelling | None = None) -> re.Match[str] | None:
    """Return the last `Final Answer:` in a spelling, by default in the strictest that matches."""
    spellings = Spelling if spelling is None else (spelling,)
    return next((found for one in spellings if (found := find_last(FINAL_ANSWER.patterns[one], text))), None)


def _find_spelling(text: str) -> Spelling:
    """Return the strictest spelling that matches an action or an answer. Raises `ParseError` if there is none."""
    found = next((one for one in Spelling if find_action(text, one) or find_answer(text, one)), None)
    if found is None:
        raise make_missing_error(text)
    return found


def find_value(text: str) -> Value | None:
    """Return the first input of an action or answer in a text with labels."""
    action, answer = find_action(text, Spelling.TRANSLATED), FINAL_ANSWER.patterns[Spelling.TRANSLATED].search(text)
    return find_value_after(text, [(INPUT, action and action.input), (FINAL_ANSWER, answer)])


def read_action(read: ReplyText, found: LabelledAction, names: Collection[str]) -> Decision:
    """Return the action after the labels; `names` are those of the known tools.

    Raises `ParseError` if a second input or another known tool is labelled at the beginning of a line, in any spelling,
    and if the reply was cut at the token limit: the input may be incomplete.
    """
    text = read.text
    inputs = any(label.end() != found.input.end() for label in INPUT.at_line.finditer(text))
    if inputs or any(label.end() != found.action.end() for label in _find_known_actions(text, names)):
        raise _make_several_error(text)
    reject_cut_reply(read)
    tool = strip_fence(read_text_after(text, found.action, found.input.start())).strip("`").strip()
    tool_input = read_text_after(text, found.input, read.end)
    inner = strip_fence(tool_input)
    given = _strip_quotes(tool_input) if inner == tool_input else inner
    return read.act(find_tool(tool, names), given)


# The rest of a line, or the next one if it is empty.
_NEXT_LINE = compile_lazily(r"\s{0,99}[^\n]{0,300}")
# Characters. Longer than any tool's name with what surrounds it: the search for a name is not linear.
_MAX_NAME = 200
# What models write around a tool's name if the prompt says "one of [...]".
_NAME = compile_lazily(r"\W*(?:one of\b\W*)?(.*?)\W*", re.IGNORECASE | re.DOTALL)


def find_tool(written: str, names: Collection[str]) -> str:
    """Return the name of the known tool that is written, such as `one of [weather]`, or else the text as it is."""
    if written in names or len(written) > _MAX_NAME:
        return written
    found = _NAME().fullmatch(written)
    return found[1] if found and found[1] in names else written


def has_known_action(text: str, names: Collection[str]) -> bool:
    """Return whether lines of the text begin with `Action:` of a known tool and, after it, `Action Input:`."""
    found = next(_find_known_actions(text, names), None)
    return found is not None and INPUT.at_line.search(text, found.end()) is not None


def find_named_tools(text: str, names: Collection[str]) -> list[str]:
    """Return the known tools that are named, in any case, after an `Action:` at the beginning of a line."""
    return [_read_tool_after(text, label, names) for label in _find_known_actions(text, names)]


def _read_tool_after(text: str, label: re.Match[str], names: Collection[str]) -> str:
    """Return the known tool after a label, also in another case or with arguments in brackets, or else the text."""
    written = read_text_after(text, label, match_end(_NEXT_LINE(), text, label.end()))
    if (found := find_tool(written, names)) in names:
        return found
    name, _, arguments = written.rstrip("`*_.; ").partition("(")
    by_case = {name.casefold(): name for name in names}
    bare = name if arguments.endswith(")") and name == name.rstrip() else written
    return by_case.get(find_tool(bare.casefold(), by_case), written)


def _find_known_actions(text: str, names: Collection[str]) -> Iterator[re.Match[str]]:
    """Yield each `Action:` at the beginning of a line that the name of a known tool follows."""
    for label in ACTION.at_line.finditer(text):
        if _read_tool_after(text, label, names) in names:
            yield label


def reject_more(text: str, names: Collection[str]) -> None:
    """Raise `ParseError` if the text of a decision has another one, which may be incomplete, or if it has none.

    Another decision is

    - a second `Action:` in the exact spelling;
    - an answer after an action;
    - an `Action:` of a known tool with an answer. After an answer in the exact spelling, a label that is spelled
      otherwise is text, unless it names a known tool and an input follows.
    """
    spelling = _find_spelling(text)
    if found := find_action(text, spelling):
        if FINAL_ANSWER.at_line.search(text, found.input.end()):
            raise ParseError(f"{BOTH}: {text}", llm_output=text)
        exact = ACTION.patterns[Spelling.EXACT].finditer(text)
        others = (label.start() for label in exact if label.end() != found.action.end())
        rest = text[found.input.end() :]
        if any(ACTION.at_line.match(text, start) for start in others) or find_action(rest, Spelling.EXACT):
            raise _make_several_error(text)
    else:
        known = (label.start() for label in _find_known_actions(text, names))
        if has_known_action(text, names) or any(ACTION.patterns[spelling].match(text, start) for start in known):
            raise _make_several_error(text)


def make_decision(read: ReplyText, names: Collection[str]) -> Decision:
    """Return the action after `Action:` and `Action Input:`, or the answer after `Final Answer:`.

    The strictest spelling that matches decides. Raises `ParseError` for neither, for
    both, and as `read_action` does.
    """
    text = read.text
    spelling = _find_spelling(text)
    found, answer = find_action(text, spelling), find_answer(text, spelling)
    if found and answer is None:
        answer = find_answer(text[: found.action.start()])
    elif answer and found is None:
        first = next(FINAL_ANSWER.patterns[spelling].finditer(text))
        found = find_action(text[: first.start()])
    if found and answer:
        raise ParseError(f"{BOTH}: {text}", llm_output=text)
    if found:
        return read_action(read, found, names)
    answer = find_answer(read.log) or answer
    assert answer is not None, "there is an action or an answer"
    return read.finish(read_text_after(text, answer, read.end))


def _make_several_error(text: str) -> ParseError:
    """Return the error for a text with more than one decision."""
    return ParseError(f"the reply has several actions: {text}", observation=SEVERAL, llm_output=text)


def make_missing_error(text: str) -> ParseError:
    """Return the error for a text with neither an action nor an answer."""
    labelled = ACTION.patterns[Spelling.TRANSLATED].search(text) is not None
    missing = MISSING_INPUT if labelled else MISSING_ACTION
    return ParseError(f"Could not parse LLM output: `{text}`", observation=missing, llm_output=text, prose=not labelled)


def make_unreadable_error(why: str, text: str, form: str, *, prose: bool) -> ParseError:
    """Return the error for a reply without a valid decision; its observation asks the model to use the `form`."""
    return ParseError(
        f"the reply could not be read: {why}: {text}",
        observation=f"Your reply could not be read: {why}. {form}",
        llm_output=text,
        prose=prose,
    )


def reject_cut_reply(read: ReplyText) -> None:
    """Raise `ParseError` if the text was cut at the token limit: its rest is unknown, so its action is not executed."""
    if read.is_cut:
        text = read.text
        observation = "Your reply was cut at the token limit, so its action was not carried out. Write a shorter one."
        raise ParseError(f"the reply was cut at the token limit: {text}", observation=observation, llm_output=text)


_QUOTES = frozenset({'""', "“”", "„“", "„”", "””"})
_QUOTE = compile_lazily('["“”„]')


def _strip_quotes(text: str) -> str:
    """Return a text without surrounding quotes; an unbalanced quote is a part of the text."""
    inner = text[1:-1]
    return inner if text[:1] + text[len(inner) + 1 :] in _QUOTES and not _QUOTE().search(inner) else text


# An opening fence: with the name of a language on its line, or directly before JSON.
_BLOCK = compile_lazily(r"```[ \t]{0,3}[\w+#.-]{0,20}[ \t]{0,3}\r?\n")
_INLINE = compile_lazily(r"```(?:json(?=[ \t]{0,3}[\[{]))?", re.IGNORECASE)
_BLANK_LINES = compile_lazily(r"\A(?:[ \t]*+\r?\n)*+")


def strip_fence(text: str) -> str:
    """Return a text without the fence and its language, if a single fence surrounds the whole text."""
    block = _BLOCK().match(text)
    opened = block or _INLINE().match(text)
    if opened is None or not text.endswith(FENCE) or len(text) < opened.end() + len(FENCE):
        return text
    inner = text[opened.end() : -len(FENCE)]
    # The code of a block may contain fences, but not at the beginning of a line; a string of JSON may contain any.
    several = f"\n{FENCE}" in f"\n{inner.rstrip(' ')}" if block else FENCE in inner
    stripped = inner.strip()
    if stripped.startswith(("{", "[")) and find_end(stripped) == len(stripped):
        return stripped
    if several or not block:
        return text if several else stripped
    # The lines of a block may all be indented as its closing fence is; a further indentation belongs to them.
    body, closing = _BLANK_LINES().sub("", inner.rstrip(), count=1), inner[inner.rfind("\n") + 1 :]
    return re.sub(rf"(?m)^[ \t]{{0,{len(closing)}}}", "", body) if closing.isspace() else body


# What servers without the template of a model leave at the end of a reply.
END_TOKENS = (
    *("</s>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>"),
    *("<end_of_turn>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
)


def _strip_end_tokens(text: str) -> str:
    """Return a text without the tokens that end a reply, such as `</s>`, at its end."""
    end = len(text)
    while token := next((token for token in END_TOKENS if text.endswith(token, 0, end)), None):
        end -= len(token)
        while text[end - 1 : end].isspace():
            end -= 1
    return text[:end]


def unwrap(text: str) -> str:
    """Return a reply without a fence around all of it, the tokens that end it, and a byte order mark."""
    inner = strip_fence(_strip_end_tokens(text.strip().strip("\ufeff\u200b").strip()))
    return text if inner == text.strip() else inner


_TOKENS = "|".join(map(re.escape, END_TOKENS))
_FENCE_MARK = r"```++(?:[ \t]{0,3}[\w+#.-]{0,20}[ \t]{0,3}(?:\r?\n|\Z))?"
_NO_TEXT = compile_lazily(rf"(?:\s|{INVISIBLE}|{_FENCE_MARK}|{_TOKENS})*+")


def has_text(text: str) -> bool:
    """Return whether a text has more than whitespace, format characters, marks of fences, and what `unwrap` removes."""
    return match_end(_NO_TEXT(), text) < len(text)


_LONGEST_TOKEN = max(map(len, END_TOKENS))
_REMOVABLE = compile_lazily(rf"(?:[\s`\ufeff\u200b]|{_TOKENS})++")


def find_removable_end(text: str) -> tuple[int, int]:
    """Return where the end of a text begins that `unwrap` may remove, and where a token begins that may be incomplete.

    Each is the length of the text if there is none.
    """
    # Only the first character of a token is `<`.
    last = text.rfind("<", max(0, len(text) - _LONGEST_TOKEN))
    begun = text[last:]
    token = last if last >= 0 and any(one.startswith(begun) for one in END_TOKENS) else len(text)
    start = token
    for found in _REMOVABLE().finditer(text, 0, token):
        start = found.start() if found.end() == token else token
    return start, token
