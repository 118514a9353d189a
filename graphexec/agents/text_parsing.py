"""Parse the text of a reply: labels in any case, fences and quotes around values, and invented observations."""

from __future__ import annotations

import re

from graphexec.actions import AgentAction, AgentFinish
from graphexec.agents.agent import Decision
from graphexec.errors import ParseError
from graphexec.messages import ModelReply

MISSING_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
MISSING_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"
BOTH = "Parsing LLM output produced both a final answer and a parse-able action:"

# All parsers use bounded repetitions, so hostile text is parsed in linear time.
_NUMBER = r"[ \t]{0,3}\d{0,3}[ \t]{0,3}"


def make_label_pattern(words: str) -> re.Pattern[str]:
    """Make the pattern of a label: with this spelling anywhere, in any case at the beginning of a line.

    Numbers and blanks may follow each word: `Action 1 Input 1 :`.
    """
    written = _NUMBER.join(words.split())
    return re.compile(rf"(?:{written}|(?im:^[ \t]{{0,4}}{written})){_NUMBER}:")


ACTION = make_label_pattern("Action")
INPUT = make_label_pattern("Action Input")
FINAL = make_label_pattern("Final Answer")


def make_invention_pattern(words: str) -> re.Pattern[str]:
    """Make the pattern of a line that begins with a word that only the program may write, such as `Observation`."""
    return re.compile(rf"(?m)^(?:{words}|(?i:[ \t*_#>]{{0,4}}{words}{_NUMBER}:))")


_OBSERVATION = make_invention_pattern("Observation")


def strip_invention(text: str, invented: re.Pattern[str] = _OBSERVATION) -> str:
    """Return the text before the first observation that the model invented."""
    found = invented.search(text)
    return text[: found.start()].removesuffix("\n") if found else text


def find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of a pattern."""
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - only the last match is used
        pass
    return found


def find_action(text: str, reply: ModelReply) -> tuple[int, AgentAction] | None:
    """Return the first `Action:` with an `Action Input:` and its position in the text.

    Raises `ParseError` if the reply was cut at the token limit: the input may be incomplete.
    """
    action = ACTION.search(text)
    given = INPUT.search(text, action.end()) if action else None
    if action is None or given is None:
        return None
    reject_cut_reply(reply, text)
    tool = strip_fence(text[action.end() : given.start()].strip()).strip("`").strip()
    tool_input = text[given.end() :].strip()
    inner = strip_fence(tool_input)
    return action.start(), AgentAction(tool, strip_quotes(tool_input) if inner == tool_input else inner, text)


def make_decision(text: str, found: tuple[int, AgentAction] | None, answer: re.Match[str] | None) -> Decision:
    """Return the action that was found, or the answer after its label. Raises `ParseError` for neither or both."""
    if found and answer:
        raise ParseError(f"{BOTH}: {text}", llm_output=text)
    if found:
        return (found[1],)
    if answer:
        return AgentFinish({"output": text[answer.end() :].strip()}, text)
    acts = ACTION.search(text) is not None
    missing = MISSING_INPUT if acts else MISSING_ACTION
    raise ParseError(f"Could not parse LLM output: `{text}`", observation=missing, llm_output=text, prose=not acts)


def unreadable_error(why: str, text: str, form: str, *, prose: bool) -> ParseError:
    """Return the error for a reply without a valid decision; its observation asks the model to use the `form`."""
    return ParseError(
        f"the reply could not be read: {why}: {text}",
        observation=f"Your reply could not be read: {why}. {form}",
        llm_output=text,
        prose=prose,
    )


def reject_cut_reply(reply: ModelReply, text: str) -> None:
    """Raise `ParseError` if the reply was cut at the token limit and `text` is all of it.

    The rest of the reply is unknown, so its action is not executed.
    """
    if reply.finish_reason == "length" and reply.content.strip() == text.strip():
        observation = "Your reply was cut at the token limit, so its action was not carried out. Write a shorter one."
        raise ParseError(f"the reply was cut at the token limit: {text}", observation=observation, llm_output=text)


def strip_quotes(text: str) -> str:
    """Return a text without surrounding quotes; an unbalanced quote is a part of the text."""
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner else text


# An opening fence: with the name of a language on its line, or directly before JSON.
_BLOCK = re.compile(r"```[\w+#.-]{0,20}[ \t]{0,3}\r?\n")
_INLINE = re.compile(r"```(?:json(?=[ \t]{0,3}[\[{]))?", re.IGNORECASE)
_FENCE = "```"


def strip_fence(text: str) -> str:
    """Return a text without the fence and its language, if a single fence surrounds the whole text."""
    block = _BLOCK.match(text)
    opened = block or _INLINE.match(text)
    if opened is None or not text.endswith(_FENCE) or len(text) < opened.end() + len(_FENCE):
        return text
    inner = text[opened.end() : -len(_FENCE)]
    # The code of a block may contain fences, but not at the beginning of a line.
    several = f"\n{_FENCE}" in f"\n{inner.rstrip(' ')}" if block else _FENCE in inner
    return text if several else inner.strip()
