"""Our parsers read what LangChain's parsers read, and in the same way but for the differences that the guide lists."""

import json
from typing import Any

from graphexec import AgentFinish, ParseError
from graphexec.agents import react
from graphexec.agents.reading.json_text import find_decisions
from graphexec.agents.reading.labels import ACTION, FINAL_ANSWER, INPUT, OBSERVATION, Spelling
from graphexec.messages import ModelReply
from tests.integrations.langchain.readers import READERS, Read
from tests.integrations.langchain.record import RECORDED
from tests.parameters import cases

READ: dict[str, Read] = {"react": react.read, **READERS}
CASES: dict[str, dict[str, dict[str, list[Any]]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
WRITTEN = {kind: tables["written"] for kind, tables in CASES.items()}


def read(kind: str, text: str) -> list[Any]:
    """Return `[tool, input]` for an action, `[answer]` for an answer, and an empty list for an error."""
    try:
        decision = READ[kind](ModelReply(text))
    except ParseError:
        return []
    if isinstance(decision, AgentFinish):
        return [decision.output]
    (action,) = decision
    return [action.tool, action.tool_input]


# The written replies that we read differently. LangChain reads the first ones as answers that are JSON, and the other
# one as a call with an empty input, but it may be a call that was cut.
DIFFERENT: dict[str, dict[str, list[Any]]] = {
    "structured_chat": {one: read("json_chat", one) for one in WRITTEN["json_chat"] if "```" not in one and "{" in one},
    "xml": {"<tool>search</tool>": []},
}


@cases("kind", *CASES)
def test_langchains_own_replies_are_read_the_same_way(kind: str) -> None:
    expected = {text: meaning for text, meaning in WRITTEN[kind].items() if meaning} | DIFFERENT.get(kind, {})
    assert {text: read(kind, text) for text in expected} == expected


def is_explained(kind: str, text: str, theirs: list[Any], ours: list[Any]) -> bool:
    """Return whether the guide's table explains why we read a reply in another way than LangChain, or refuse it."""
    if [str(one).strip() for one in theirs] == ours:
        return True
    answers = FINAL_ANSWER.patterns[Spelling.TRANSLATED].search(text) is not None
    match kind:
        case "self_ask":
            # A reply without a question; the text behind the first colon, and all of the answer.
            return not ours or ours[-1].endswith(theirs[-1].strip()) or theirs[-1].strip().endswith(ours[-1])
        case "xml":
            return not ours
        case "chat" | "structured_chat" | "json_chat":
            # Several decisions, a decision that is cut, and one without a fence.
            found = len(find_decisions(text))
            unclear = found > 1 or (found == 1 and answers) or "action_i" in text or OBSERVATION.at_line.search(text)
            return bool(unclear) or "```" in text or not text.strip() or (found == 1 and theirs == [text])
        case "conversational" if "AI:" in text or (ours and theirs[0] in ours[0]):
            # The first line that begins with the label, if there is no action; labels without a blank behind them.
            return True
        case _ if not ours:
            invented = OBSERVATION.at_line.search(text) is not None
            both = answers and ACTION.patterns[Spelling.TRANSLATED].search(text) is not None
            # An action without an input of its own, which our own agent refuses.
            acts = kind == "react" and len(list(ACTION.at_line.finditer(text))) > 1
            return invented or both or acts or len(list(INPUT.patterns[Spelling.EXACT].finditer(text))) > 1
        case _:
            # The text up to an invented observation or to an action behind the answer, without surrounding blanks.
            return len(ours) == len(theirs) and all(map(begins, ours, theirs))


def begins(ours: Any, theirs: Any) -> bool:
    """Return whether our text is the beginning of LangChain's, which may lack its last character."""
    return bool(ours == theirs or theirs.strip().startswith(ours[:-1].strip()))


@cases("kind", *CASES)
def test_every_difference_is_explained(kind: str) -> None:
    differences = {
        text: (theirs, ours)
        for text, theirs in (WRITTEN[kind] | CASES[kind]["composed"]).items()
        if theirs and (ours := read(kind, text)) != theirs and not is_explained(kind, text, theirs, ours)
    }
    assert differences == {}
