"""`stream_answer`: the answer in pieces, as the model streams it; text that a call follows is discarded."""

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import models, tools
from graphexec._parsing import INVISIBLE
from graphexec._parsing.reasoning import ReasoningSplitter
from graphexec.actions import AgentFinish
from graphexec.agents.reading.answers import AnswerReader, make_json_reader, make_label_reader, make_text_reader
from graphexec.agents.reading.labels import OBSERVATION, THOUGHT, TURN, USER
from graphexec.agents.reading.text_parsing import END_TOKENS, has_text
from graphexec.agents.reading.textual_calls import CALL_MARK_PREFIXES
from graphexec.executor import Acted, AnswerDiscarded, Ready, Replied, Stopped, parse, plan, stopped_response
from graphexec.integrations import langchain
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, ToolCall
from graphexec.models.scripted import ScriptedReply
from tests.executor.actors import call, echo, run_by
from tests.kernel.machines import pure
from tests.parameters import cases
from tests.semantics.endings import noting_tool

NATIVE = call("echo", text="a")
ANSWER = "It is 42."


def split_text(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


class Streaming(models.ScriptedModel):
    """A scripted model that streams the text of its replies in pieces, and then the calls."""

    def __init__(self, replies: Sequence[ScriptedReply], cuts: Sequence[int]) -> None:
        super().__init__(replies)
        self._cuts = cuts

    def stream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> Generator[ReplyDelta | ModelReply, None, None]:
        reply = self.complete(request, timeout=timeout)
        for piece in split_text(reply.content, self._cuts):
            yield ReplyDelta(piece)
        for index, one in enumerate(reply.tool_calls):
            yield ReplyDelta(index=index, call_id=one.id, name=one.name)
            yield ReplyDelta(index=index, arguments=one.arguments)
        yield reply

    async def astream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        for piece in self.stream(request, timeout=timeout):
            yield piece


# A function that creates an agent of a model and tools.
Make = Callable[..., gx.Agent]
TOOLS: list[tools.AnyTool] = [echo]
react: Make = gx.create_react_agent
structured, tool_calling = gx.create_structured_agent, gx.create_tool_calling_agent


def executor(
    make: Make, replies: Sequence[str | ModelReply], cuts: Sequence[int] = range(500), **settings: Any
) -> gx.AgentExecutor:
    """Return an executor of an agent whose model streams its replies letter by letter, or in pieces of these cuts."""
    return gx.AgentExecutor(agent=make(Streaming(replies, cuts), TOOLS), tools=TOOLS, **settings)


def pieces(make: Callable[[], gx.AgentExecutor]) -> list[str]:
    """Return the pieces of the answer, which are the same in sync and async runs."""
    inputs = {"input": "?"}
    found: list[str] = run_by("stream_answer", make(), inputs)
    assert run_by("astream_answer", make(), inputs) == found
    return found


def stream(*replies: ModelReply, cuts: Sequence[int] = range(50), **options: Any) -> tuple[list[str], str]:
    """Return the pieces of the answer, and the answer of the run."""

    def make() -> gx.AgentExecutor:
        return executor(tool_calling, replies, cuts, handle_parsing_errors=True, **options)

    return pieces(make), make().run("?").output


def without_discarded(pieces: Sequence[str]) -> str:
    """Return the pieces after the last discard as one string."""
    last = max((place for place, piece in enumerate(pieces) if isinstance(piece, AnswerDiscarded)), default=-1)
    return "".join(pieces[last + 1 :])


LOOK, END = ModelReply("I look.", (NATIVE,)), ModelReply(ANSWER)
GENERATE = {"max_iterations": 1, "early_stopping_method": "generate"}
STOPPED = "Agent stopped due to iteration limit or time limit."


@cases(
    ("replies", "options", "pieces", "answer"),
    ([ModelReply("", (NATIVE,)), END], {}, [*ANSWER], ANSWER),
    # Text before a call is discarded, also if it is the beginning of the answer, or the call cannot be read.
    ([LOOK, END], {"cuts": []}, ["I look.", AnswerDiscarded("\n"), ANSWER], ANSWER),
    ([ModelReply("It is", (NATIVE,)), END], {"cuts": []}, ["It is", "\n", ANSWER], ANSWER),
    ([ModelReply("I look.", (ToolCall("1", "echo", "{"),)), END], {"cuts": []}, ["I look.", "\n", ANSWER], ANSWER),
    # So it is in a run that is stopped, whose last answer is streamed.
    ([LOOK], {"cuts": [], "max_iterations": 1}, ["I look.", "\n", STOPPED], STOPPED),
    ([LOOK, END], GENERATE, [*"I look.", "\n", *ANSWER], ANSWER),
    # Text like a call is held back.
    *(([ModelReply(text)], {}, [text], text) for text in ('{"a": 1}', "[1]", "```\n1\n```", "  <b>1</b>")),
)
def test_discarded_text_is_marked(replies: Any, options: Any, pieces: list[str], answer: str) -> None:
    found, output = stream(*replies, **options)
    assert (found, output, without_discarded(found)) == (pieces, answer, answer)
    assert [isinstance(piece, AnswerDiscarded) for piece in found] == [piece == "\n" for piece in pieces]


def test_text_that_may_be_no_answer_is_discarded_or_held_back() -> None:
    # The discard comes before the tool runs.
    look, called = noting_tool("look")
    agent = gx.create_tool_calling_agent(Streaming([ModelReply("I look.", (call("look", text="a"),))], []), [look])
    pieces = gx.AgentExecutor(agent=agent, tools=[look]).stream_answer("?")
    assert next(pieces) == "I look."
    assert isinstance(next(pieces), AnswerDiscarded)
    assert called == []
    pieces.close()
    # A guarded answer comes in one piece.
    rows = gx.edges(check, gx.on(gx.AgentFinish, gx.END))
    guarded = executor(tool_calling, [END]).splice(rows, after=parse, on=gx.AgentFinish)
    assert list(guarded.stream_answer("?")) == [ANSWER]
    # Reasoning that only its end shows is discarded.
    found, answer = stream(ModelReply(f"I add.</think>{ANSWER}"), cuts=[6])
    assert (found[0], found[-2:]) == ("I add.", ["\n", ANSWER])
    assert without_discarded(found) == answer == ANSWER
    # The tag of a call is held back.
    read = make_text_reader()
    assert "".join(map(read, "1 < 2 <b> <Tool_Call>{}")) == "1 < 2 <b> "


check = pure("check", gx.AgentFinish, gx.AgentFinish, lambda finish: finish)


TEXTS = st.text() | st.lists(
    st.sampled_from(["<tool_call>", "<think>", "</think>", "<", "{", "`", " ", "\n", "a", "42"])
).map("".join)
CALLS = st.sampled_from([(), (NATIVE,), (NATIVE, NATIVE), (ToolCall("1", "echo", "{"),)])
REPLIES = st.lists(st.builds(ModelReply, TEXTS, CALLS), max_size=4)


@given(
    replies=REPLIES,
    last=TEXTS.filter(lambda text: whole_answer(gx.create_tool_calling_agent, text) is not None),
    cuts=st.lists(st.integers(0, 500)),
)
def test_pieces_after_the_last_discard_are_the_answer(replies: list[ModelReply], last: str, cuts: list[int]) -> None:
    # The last reply may be no answer either: only reasoning, for example.
    found, answer = stream(*replies, ModelReply(last), END, cuts=cuts)
    assert without_discarded(found) == answer
    assert "" not in found


PLAIN = st.text(st.characters(exclude_characters="{[`<"))


@given(text=PLAIN, cuts=st.lists(st.integers(0, 500)))
def test_plain_text_is_never_held_back(text: str, cuts: list[int]) -> None:
    read: Callable[[str], str] = make_text_reader()
    assert "".join(map(read, split_text(text, cuts))) == (text if text.strip() else "")


# ---- every agent: only the final answer, in pieces


ACT = "Thought: I look.\nAction: echo\nAction Input: a"
mrkl = langchain.create_mrkl_agent
CALL = ToolCall("1", "echo", '{"text": "a"}')
JSON = json.dumps({"action": "final_answer", "answer": ANSWER})
TALKS: dict[str, tuple[Make, Sequence[str | ModelReply], bool]] = {
    "react": (react, [ACT, f"Thought: I know.\nFinal Answer: {ANSWER}"], True),
    "react in capitals": (react, [f"FINAL ANSWER:   {ANSWER}\n"], True),
    # Agents of LangChain's formats do not stream.
    "mrkl": (mrkl, [ACT, f"Final Answer: {ANSWER}"], False),
    "structured": (structured, [json.dumps({"action": "echo", "action_input": {"text": "a"}}), JSON], True),
    "structured, with the other key": (structured, [JSON.replace('"answer"', '"action_input"')], True),
    "structured, with the answer first": (structured, [f'{{"answer": "{ANSWER}", "action": "final_answer"}}'], False),
    "tool calling": (tool_calling, [ModelReply("", (CALL,)), ANSWER], True),
}


@pytest.mark.medium
@cases("talk", *TALKS)
def test_only_the_answer_is_streamed(talk: str) -> None:
    make, replies, letter_by_letter = TALKS[talk]
    found = pieces(lambda: executor(make, replies))
    assert "".join(found).strip() == ANSWER
    assert len(found) > 5 if letter_by_letter else len(found) == 1


def test_answer_follows_discarded_pieces() -> None:
    replies = [f"Final Answer: 7\n{ACT}", f"Final Answer: {ANSWER}"]
    found = pieces(lambda: executor(react, replies, handle_parsing_errors=True))
    streamed = "".join(found)
    assert without_discarded(found) == ANSWER
    assert streamed.startswith("7")
    assert streamed.endswith(f"\n{ANSWER}")
    assert streamed.count(ANSWER) == 1


WITHHELD = "I cannot say."


withhold = pure("withhold", AgentFinish, AgentFinish, lambda finish: AgentFinish({"output": WITHHELD}, "", finish.run))


@gx.node
def withhold_reply(replied: Replied) -> Replied:
    """Withhold every reply."""
    assert isinstance(replied.reply, ModelReply)
    return dataclasses.replace(replied, reply=dataclasses.replace(replied.reply, content=f"Final Answer: {WITHHELD}"))


@gx.node
def withhold_stop(stopped: gx.StoppedResponse) -> gx.StoppedResponse:
    """Withhold every stopped response."""
    return dataclasses.replace(stopped, output=WITHHELD)


def withhold_text(outcome: Replied | Stopped) -> Replied | Stopped:
    """Return the outcome of `plan` without the model's text."""
    changed: Replied | Stopped = outcome if isinstance(outcome, Stopped) else withhold_reply.function(outcome)
    return changed


def withhold_finish(finish: Acted | AgentFinish | Ready) -> Acted | AgentFinish | Ready:
    return withhold.function(finish) if isinstance(finish, AgentFinish) else finish


SAVE = pure("save_memory", AgentFinish, AgentFinish, lambda finish: finish)
WITHHOLDING, SAVING = (gx.edges(one, gx.on(AgentFinish, gx.END)) for one in (withhold, SAVE))


def add_saving_node(graph: Any) -> Any:
    """Return the graph with a node that saves its answers."""
    return gx.splice(graph, SAVING, after=parse, on=AgentFinish)


GUARDS: dict[str, Callable[[Any], Any]] = {
    "behind parse": lambda graph: gx.splice(graph, WITHHOLDING, after=parse, on=AgentFinish),
    "before parse": lambda one: gx.splice(one, gx.edges(withhold_reply, gx.on(Replied, parse)), after=plan, on=Replied),
    "around parse": lambda graph: gx.wrap(graph, parse, after=withhold_finish),
    "around plan": lambda graph: gx.wrap(graph, plan, after=withhold_text),
    "behind the memory": lambda graph: gx.splice(add_saving_node(graph), WITHHOLDING, after=SAVE, on=AgentFinish),
}


@cases("handling", True, False)
@cases("guard", *GUARDS)
def test_guard_holds_the_answers_pieces(guard: str, handling: bool) -> None:
    def make() -> gx.AgentExecutor:
        plain = executor(react, [ACT, f"Final Answer: {ANSWER}"], handle_parsing_errors=handling)
        return plain.with_graph(GUARDS[guard](plain.graph))

    assert pieces(make) == [WITHHELD]


def test_guards_hold_back_the_pieces_of_an_answer() -> None:
    # A guard holds back the last word of a stopped run.
    def make(guarded: bool) -> gx.AgentExecutor:
        plain = executor(react, [ACT, f"Final Answer: {ANSWER}"], max_iterations=1, early_stopping_method="generate")
        rows = gx.edges(withhold_stop, gx.on(gx.StoppedResponse, gx.END))
        changed = gx.splice(plain.graph, rows, after=stopped_response, on=gx.StoppedResponse)
        return plain.with_graph(changed) if guarded else plain

    assert pieces(lambda: make(guarded=True)) == [WITHHELD]
    assert len(pieces(lambda: make(guarded=False))) > 5
    # Saving the memory holds back no pieces.
    plain = executor(react, [f"Final Answer: {ANSWER}"] * 3)
    found = pieces(lambda: plain.with_graph(add_saving_node(plain.graph)))
    assert "".join(found) == ANSWER
    assert len(found) > 5

    # The answer of an embedded agent comes in pieces.
    def make_embedded(guarded: bool) -> gx.AgentExecutor:
        plain = executor(react, [f"Final Answer: {ANSWER}"])
        inner: Any = gx.embed(plain.graph, "inner")
        ending: Any = gx.on(AgentFinish, withhold if guarded else gx.END) | gx.on(gx.StoppedResponse, gx.END)
        rows: Any = gx.edges(inner, ending)
        return plain.with_graph(gx.graph(rows | WITHHOLDING if guarded else rows, start=inner))

    assert len(pieces(lambda: make_embedded(guarded=False))) > 5
    assert pieces(lambda: make_embedded(guarded=True)) == [WITHHELD]


def test_pieces_of_a_nested_run_are_not_streamed() -> None:
    def make() -> gx.AgentExecutor:
        inner = executor(react, ["Final Answer: inner"])

        @gx.tool(name="echo")
        def delegate(text: str) -> str:
            """Ask another agent."""
            return str(inner.run(text).output)

        agent = gx.create_react_agent(Streaming([ACT, f"Final Answer: {ANSWER}"], range(500)), [delegate])
        return gx.AgentExecutor(agent=agent, tools=[delegate])

    assert "".join(pieces(make)) == ANSWER


def read_in_pieces(reader: AnswerReader, text: str, cuts: Sequence[int]) -> str:
    return "".join(map(reader, split_text(text, cuts)))


CUTS = st.lists(st.integers(0, 500))


def stream_text(make: Make, text: str, cuts: list[int]) -> str:
    reader = make(models.ScriptedModel([]), TOOLS).answer
    assert reader is not None
    return read_in_pieces(reader(), text, cuts)


def whole_answer(make: Make, text: str) -> str | None:
    """Return the answer in a complete reply; empty if it is another decision or unreadable."""
    try:
        decision = make(models.ScriptedModel([]), TOOLS).read(ModelReply(text))
    except gx.ParseError:
        return None
    return decision.output if isinstance(decision, AgentFinish) else None


LINES = st.lists(st.sampled_from(["User: a", "AI: b", "Assistant: c", "d", "Question: e", "", "\u2060"]), max_size=5)
ANY = st.text(max_size=30) | LINES.map("\n".join)


def as_json(action: str, key: str, fence: str = "{}") -> Callable[[str, bool], str]:
    def write(answer: str, ascii_only: bool) -> str:
        return fence.replace("{}", json.dumps({"action": action, key: answer}, ensure_ascii=ascii_only))

    return write


def after_a_label(answer: str, lower: bool) -> str:
    return f"Thought: I know.\n{'final answer' if lower else 'Final Answer'}: {answer}"


def as_it_is(answer: str, after_a_word: bool) -> str:
    return f"{'So: ' if after_a_word else ''}{answer}"


# Each agent, with two ways in which its model may write an answer.
WRITTEN: dict[str, tuple[Make, Callable[[str, bool], str]]] = {
    "structured": (structured, as_json("final_answer", "answer")),
    "structured, with the other key": (structured, as_json("final_answer", "action_input")),
    "ReAct": (react, after_a_label),
    "tool calling": (tool_calling, as_it_is),
}


# What ReAct does not read at the end of a reply, and what it does not read there if the reply begins accordingly.
ENDINGS = "|".join(["\\s", "\ufeff", "\u200b", *map(re.escape, END_TOKENS)])
UNREAD_END = re.compile(f"(?:{ENDINGS})*+")
HELD_ENDING = re.compile(f"(?:{ENDINGS}|`)*+")


def begins_with_a_label(rest: str) -> bool:
    return any(label.at_line.match(rest.lstrip()) for label in (OBSERVATION, TURN, THOUGHT, USER))


def is_unread(rest: str, kind: str, way: bool) -> bool:
    """Return whether the end of what is written as an answer is not a part of it."""
    # An observation or a question that the model invents, and all text after it, or the beginning of a stop string.
    write = WRITTEN[kind][1]
    if begins_with_a_label(rest) and write is after_a_label:
        return True
    ends = write is after_a_label and OBSERVATION.stop.startswith(rest.strip(" \t\r\n*_"))
    return ends or (kind == "ReAct" and UNREAD_END.fullmatch(rest) is not None)


def is_ending(rest: str) -> bool:
    """Return whether ReAct may not read a text at the end of a reply; its last token may be incomplete."""
    ending = HELD_ENDING.match(rest)
    assert ending is not None, "the pattern matches the empty string"
    begun = rest[ending.end() :]
    return any(token.startswith(begun) for token in END_TOKENS)


def is_call(rest: str) -> bool:
    """Return whether a text is the mark of a call and what follows it, or the beginning of a mark."""
    marked = any(re.match(re.escape(mark), rest, re.IGNORECASE) for mark in CALL_MARK_PREFIXES)
    return marked or any(mark.startswith(rest.lower()) for mark in CALL_MARK_PREFIXES)


def is_held_back(streamed: str, whole: str, written: str, kind: str, way: bool) -> bool:
    """Return whether the end of an answer is held until the reply is complete; it then comes with the run's end."""
    write = WRITTEN[kind][1]
    rest = whole.removeprefix(streamed)
    _, line_break, line = written.rpartition("\n")
    # The last line may become one that ends an answer.
    may_end = line_break and len(line) <= 80
    # Only the rest of the reply says whether it begins a turn.
    if write is after_a_label and begins_with_a_label(rest):
        return True
    if write is as_it_is:
        # The whole text may be a call, or what stands before reasoning, such as `assistant:`.
        visible = re.sub(rf"\A(?:\s|{INVISIBLE})+", "", rest)
        splitter = ReasoningSplitter()
        splitter.take(whole)
        may_be_more = not splitter.in_content or not visible or visible.startswith(("{", "[", "`", "<"))
        return is_call(rest) or (not streamed and may_be_more)
    if write is not after_a_label:
        return False
    if may_end:
        start = max(len(written.lstrip()) - len(line), 0)
        rest = whole[len(streamed) : start].rstrip()
    return not rest or (kind == "ReAct" and is_ending(rest))


@pytest.mark.medium
@cases("kind", *WRITTEN)
@given(answer=ANY, way=st.booleans(), cuts=CUTS)
@example(answer="\nI", way=False, cuts=[])
@example(answer="\nObservation", way=False, cuts=[])
@example(answer="\u200b", way=False, cuts=[])
@example(answer="42</s>", way=False, cuts=[])
@example(answer="0\nUser:\nAI:", way=False, cuts=[])
@example(answer="\nQuestion:", way=False, cuts=[])
@example(answer="\u200c</", way=False, cuts=[])
@example(answer=" ", way=False, cuts=[])
@example(answer="a", way=False, cuts=[])
@example(answer="-\n1._\u200b\ufeff", way=True, cuts=[])
@example(answer="42<|im_end|> </s>\ufeff", way=True, cuts=[*range(60)])
def test_pieces_add_up_to_the_whole_answer(kind: str, answer: str, way: bool, cuts: list[int]) -> None:
    make, write = WRITTEN[kind]
    reply = write(answer, way)
    written = answer
    if write is as_it_is:
        answer = written = reply
    elif write is after_a_label:
        answer = answer.strip()
    whole = whole_answer(make, reply)
    if whole is None:
        # A reply without a text and without calls is no answer.
        assert not has_text(reply)
        return
    assert answer.startswith(whole)
    assert whole == answer or is_unread(answer.removeprefix(whole), kind, way)
    streamed = stream_text(make, reply, cuts)
    assert whole.startswith(streamed)
    assert streamed == whole or is_held_back(streamed, whole, written, kind, way)


def test_held_line_comes_at_the_end() -> None:
    found = pieces(lambda: executor(react, ["Thought: I know.\nFinal Answer: Who?\nI"]))
    assert found[-1] == "\nI"
    assert "".join(found) == "Who?\nI"


@cases(
    "reply",
    *("{}</s>", "{}\n<|im_end|>", "{} <|eot_id|></s>\n", "{}\u200b", "{}\ufeff\n"),
    *("```\n{}\n```", "```\n{}\n``` </s>"),
)
def test_unread_end_of_a_reply_is_not_streamed(reply: str) -> None:
    found = pieces(lambda: executor(react, [reply.format(f"Final Answer: {ANSWER}")]))
    assert "".join(found) == ANSWER
    assert len(found) > 5


# What may stand around a reply, whole and in parts.
WRAPPING = st.sampled_from([*END_TOKENS, "```", "`", "<", "</", "<|", "<|im_", " ", "\n", "x", "I", "\u200b"])


@given(before=st.sampled_from(["", "```\n"]), answer=st.lists(WRAPPING, max_size=8), cuts=CUTS)
def test_wrapping_is_held_back(before: str, answer: list[str], cuts: list[int]) -> None:
    written = f"x{''.join(answer)}"
    reply = f"{before}Final Answer: {written}"
    whole = whole_answer(react, reply)
    assert whole is not None
    streamed = stream_text(react, reply, cuts)
    assert whole.startswith(streamed)
    assert streamed == whole or is_held_back(streamed, whole, written, "ReAct", way=False)


# Parts of replies, valid and invalid.
JSON_PARTS = [
    *('{"action": "Final Answer", "action_input": "', '{"action": "final_answer", "answer": "', "{", "}", "[", "]"),
    *("```", "```json\n", "Action:", "\nObservation: ", '"', '"}', '"}]', "\\n", "\\", " ", "\n", "x", ","),
    *('{"action": "echo", "action_input": ', '{"action": "echo", "action_input": "'),
]
TAGS = [
    *("<final_answer>", "</final_answer>", "<FINAL_ANSWER >", "<tool>", "</tool>", "<tool_input>", "</tool_input>"),
    *("<observation>", "&lt;tool>", "&amp;lt;/tool >", "&amp;amp;lt;", "&", "<", ">", "tool", "amp;", "lt;", " ", "x"),
]
PARTS: dict[str, tuple[Make, list[str]]] = {
    "structured": (structured, JSON_PARTS),
    "tool calling": (tool_calling, ["So: ", "", *JSON_PARTS, *TAGS, "<tool_call>", "[TOOL_CALLS]", '{"name": "echo"']),
}


@cases("kind", *PARTS)
@given(data=st.data(), cuts=CUTS)
def test_pieces_are_the_beginning_of_the_answer(kind: str, data: st.DataObject, cuts: list[int]) -> None:
    make, parts = PARTS[kind]
    # The reply starts like an answer more often than by chance.
    begun = data.draw(st.sampled_from([parts[0], parts[1], ""]))
    reply = begun + "".join(data.draw(st.lists(st.sampled_from(parts), max_size=12)))
    answer = whole_answer(make, reply)
    if answer is not None:
        assert answer.startswith(stream_text(make, reply, cuts))


ONE_LINE = st.text(st.characters(exclude_characters="\n"))


@given(answer=ONE_LINE, before=st.text("Final Asw:\n"), more=ONE_LINE, cuts=CUTS)
def test_text_after_the_marker_is_streamed(answer: str, before: str, more: str, cuts: list[int]) -> None:
    reply = f"{before}\nFinal Answer:{answer}"
    if "final answer:" not in before.lower():
        assert read_in_pieces(make_label_reader(), reply, cuts) == answer.strip()
        # An observation that the model invents after it is not part of it.
        invented = f"{reply}\nObservation: {more}\nFinal Answer: {more}"
        assert read_in_pieces(make_label_reader(), invented, cuts) == answer.strip()


@cases(
    ("make", "reply", "answer"),
    # A label starts a line.
    (make_label_reader, "Thought: I say 'Final Answer: x' soon\n Final Answer: hello", "hello"),
    # A line that may be a label is held.
    (make_label_reader, "Final Answer: one\nobs two\n  Observe!\nObservation: x", "one\nobs two\n  Observe!"),
    (make_label_reader, "**Final Answer:** It is **42**", "It is **42**"),
    # The emphasis may end after the answer.
    (make_label_reader, "**Final Answer: 42**", ""),
    # Neither is JSON.
    (functools.partial(make_json_reader, ["answer"]), '{"action": "final_answer", answer: 1', ""),
    (structured(models.ScriptedModel([]), TOOLS).answer, '{"action": "final_answer", "answer": "a\\qb"}', "a"),
)
def test_reader_returns_the_answer_alone(make: Callable[[], AnswerReader], reply: str, answer: str) -> None:
    assert read_in_pieces(make(), reply, [*range(60)]) == answer


# Within an action, in a second object, in prose, or after an invented observation.
OTHERS = (
    '{"action": "echo", "action_input": {"a": "final_answer"}}',
    '{"action": "echo", "action_input": {"action": "final_answer", "answer": "x"}}',
    '{"action": "echo", "action_input": {"action": "final_answer", "action_input": "x"}}',
    '{"action": "echo"} {"action": "final_answer", "action_input": "x"}',
    'Observation: a\n{"action": "Final Answer", "action_input": "x"}',
    "x" * 2_000,
    '{"answer": "x"}',
)


@cases("text", *OTHERS)
def test_replies_without_an_answer_stream_nothing(text: str) -> None:
    assert stream_text(structured, text, list(range(0, 2_000, 7))) == ""
