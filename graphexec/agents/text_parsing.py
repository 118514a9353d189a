"""Text as models write it: labels in whatever case, fences and quotes around what is meant, observations made up."""

from __future__ import annotations

import re

from graphexec.actions import AgentAction, AgentFinish
from graphexec.agents.agent import Decision
from graphexec.errors import ParseError
from graphexec.messages import ModelReply

MISSING_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
MISSING_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"
BOTH = "Parsing LLM output produced both a final answer and a parse-able action:"

# Bounded repetitions, throughout the parsers: hostile text is read in linear time.
_NUMBER = r"[ \t]{0,3}\d{0,3}[ \t]{0,3}"


def make_label_pattern(words: str) -> re.Pattern[str]:
    """Return the pattern of a label: as it is written anywhere, in another case where a line begins with it.

    Numbers and blanks may stand behind each word: `Action 1 Input 1 :`.
    """
    written = _NUMBER.join(words.split())
    return re.compile(rf"(?:{written}|(?im:^[ \t]{{0,4}}{written})){_NUMBER}:")


ACTION = make_label_pattern("Action")
INPUT = make_label_pattern("Action Input")
FINAL = make_label_pattern("Final Answer")


def make_invention_pattern(words: str) -> re.Pattern[str]:
    """Return the pattern of a line that begins with what only the program may say, such as `Observation`."""
    return re.compile(rf"(?m)^(?:{words}|(?i:[ \t*_#>]{{0,4}}{words}{_NUMBER}:))")


_OBSERVATION = make_invention_pattern("Observation")


def strip_invention(text: str, invented: re.Pattern[str] = _OBSERVATION) -> str:
    """Return the text before an observation of the model's own: neither that nor what follows is ever believed."""
    found = invented.search(text)
    return text[: found.start()].removesuffix("\n") if found else text


def find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last place where the pattern matches."""
    found = None
    for found in pattern.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return found


def find_action(text: str, reply: ModelReply) -> tuple[int, AgentAction] | None:
    """Return where the first `Action:` with an `Action Input:` stands in the believed text, and what it says.

    Raises `ParseError` if the reply was cut at the token limit, in the middle of the input for all one can know.
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
    """Return the action that was found, or the answer behind its label. Raises `ParseError` for neither or both."""
    if found and answer:
        raise ParseError(f"{BOTH}: {text}", llm_output=text)
    if found:
        return (found[1],)
    if answer:
        return AgentFinish({"output": text[answer.end() :].strip()}, text)
    acts = ACTION.search(text) is not None
    missing = MISSING_INPUT if acts else MISSING_ACTION
    raise ParseError(f"Could not parse LLM output: `{text}`", observation=missing, llm_output=text, prose=not acts)


def unreadable_error(why: str, said: str, form: str, *, prose: bool) -> ParseError:
    """Return the error of a reply that is no decision; the model is asked to write in the `form`."""
    return ParseError(
        f"the reply could not be read: {why}: {said}",
        observation=f"Your reply could not be read: {why}. {form}",
        llm_output=said,
        prose=prose,
    )


def reject_cut_reply(reply: ModelReply, text: str) -> None:
    """Raise `ParseError` if the reply was cut at the token limit and `text` is all of it.

    What would have come is not known, so the action is not carried out.
    """
    if reply.finish_reason == "length" and reply.content.strip() == text.strip():
        told = "Your reply was cut at the token limit, so its action was not carried out. Write a shorter one."
        raise ParseError(f"the reply was cut at the token limit: {text}", observation=told, llm_output=text)


def strip_quotes(text: str) -> str:
    """Text without the quotes around it, if they are around it: an unbalanced one belongs to it."""
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner else text


# An opening fence: with a word for the language on its line, or right before JSON.
_BLOCK = re.compile(r"```[\w+#.-]{0,20}[ \t]{0,3}\r?\n")
_INLINE = re.compile(r"```(?:json(?=[ \t]{0,3}[\[{]))?", re.IGNORECASE)
_FENCE = "```"


def strip_fence(text: str) -> str:
    """Text without the fence around it and the fence's language, if one fence is around all of it."""
    block = _BLOCK.match(text)
    opened = block or _INLINE.match(text)
    if opened is None or not text.endswith(_FENCE) or len(text) < opened.end() + len(_FENCE):
        return text
    inner = text[opened.end() : -len(_FENCE)]
    # In a block, code may contain fences, but no line of it begins with one.
    several = f"\n{_FENCE}" in f"\n{inner.rstrip(' ')}" if block else _FENCE in inner
    return text if several else inner.strip()
