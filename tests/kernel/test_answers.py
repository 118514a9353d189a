"""Replies: cut effects, outcomes of opaque nodes, tokens, seconds, and invalid replies."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import graphexec as gx
from graphexec.effects import CallTool, ToolResult, agent_limits, reported_tokens, silent_calls
from graphexec.errors import InputError, UndeclaredOutcomeError
from graphexec.kernel.events import Cut
from graphexec.messages import ModelReply, Usage
from graphexec.runtime import run
from tests.kernel import machines as m
from tests.parameters import cases


@gx.node(when_spent=m.Stopped)
def look(left: m.Left) -> gx.Asks[CallTool, m.Total]:
    result = yield from gx.ask(CallTool("look", ""))
    return m.Total(f"{result.status}: {result.observation}")


LOOK = m.machine_of(look)


@gx.node(when_spent=m.Stopped)
def both(left: m.Left) -> gx.Asks[CallTool | m.Question, m.Total]:
    # Any: the type checkers cannot distinguish the replies of the two effects.
    mixed: Any = [CallTool("look", ""), m.Question("?")]
    first, second = yield from gx.ask_all(mixed)
    return m.Total(f"{first.status}, {second}")


BOTH = m.machine_of(both)
TWO_SECONDS = gx.Limits(seconds=2)
LATE = gx.Exhausted("seconds", 2, 2)
TEA, UNDERWAY = m.pending(m.INTERVIEW, m.Topic("tea")), m.Underway(("left",))
A, B, C = (ToolResult(text) for text in "ABC")
ABC = m.Topics(("a", "b", "c"))


def cut(name: str) -> ToolResult:
    return CallTool(name, "").cut(LATE)


@cases(
    ("machine", "value", "at", "answers", "outcome"),
    # An effect with a reply of its own continues its node, and another one leaves it.
    (LOOK, m.Left(1), 2.5, (), m.Total("cut: look was cut off: the limit of 2 seconds was reached (2.5 spent).")),
    (m.INTERVIEW, m.Topic("tea"), 2.5, (), m.Stopped(m.Topic("tea"), gx.Exhausted("seconds", 2, 2.5))),
    # A cut effect used all remaining time.
    (m.INTERVIEW, m.Topic("tea"), 1.999, (), m.Stopped(m.Topic("tea"), LATE)),
    # An unfinished batch is cut as a whole, and cut members keep their place in the replies.
    (m.SURVEY, m.Topics(("a", "b")), 2.0, (), m.Survey((cut("a"), cut("b")))),
    (m.SURVEY, ABC, 2.0, (A, Cut(), C), m.Survey((A, cut("b"), C))),
    (m.SURVEY, ABC, 2.0, (Cut(), B, Cut()), m.Survey((cut("a"), B, cut("c")))),
    # A later effect, and an opaque node.
    (m.INTERVIEW, TEA.reply("fine", at=1.0), 2.5, (), m.Stopped(m.Topic("tea"), gx.Exhausted("seconds", 2, 2.5))),
    (m.ERRAND, m.pending(m.ERRAND, m.Errand()).reply(UNDERWAY, at=1.0), 2.0, (), m.Stopped(UNDERWAY, LATE)),
    # A cut member without a reply of its own leaves the node, which continues if that one has finished.
    (BOTH, m.Left(1), 2.0, (), m.Stopped(m.Left(1), LATE)),
    (BOTH, m.Left(1), 2.0, (A, Cut()), m.Stopped(m.Left(1), LATE)),
    (BOTH, m.Left(1), 2.0, (Cut(), Cut()), m.Stopped(m.Left(1), LATE)),
    (BOTH, m.Left(1), 2.0, (Cut(), "yes"), m.Total("cut, yes")),
)
def test_run_continues_after_a_cut(machine: Any, value: object, at: float, answers: Any, outcome: object) -> None:
    state = m.pending(machine, value, TWO_SECONDS)
    cut_run = state.reply(answers, at=at) if answers else state.cut(at=at)
    done = m.finish(machine, m.reload(cut_run, machine), TWO_SECONDS)
    assert (done.outcome, done.spent.seconds) == (outcome, max(at, 2))


@cases(
    ("finished", "reported"),
    *[((ModelReply("so", usage=usage), Cut()), usage) for usage in (Usage(2, 3), Usage(7, 5))]
    + [((Cut(), ModelReply("so", usage=Usage(2, 3))), Usage(2, 3))],
)
def test_finished_calls_of_a_cut_batch_are_charged(finished: tuple[object, ...], reported: Usage) -> None:
    state = m.pending(m.BRAINSTORM, m.Prompt(), TWO_SECONDS)
    done = m.finish(m.BRAINSTORM, state.reply(finished, at=2.0), TWO_SECONDS)
    assert done.outcome == m.Stopped(m.Prompt(), LATE)
    assert Usage(int(done.spent["prompt_tokens"]), int(done.spent["completion_tokens"])) == reported
    assert (reported_tokens(done.spent), silent_calls(done.spent)) == (reported.total_tokens, 1)


@gx.node(when_spent=m.Stopped)
def idle(topic: m.Topic) -> gx.Asks[CallTool, m.Survey]:
    results = yield gx.All(())
    return m.Survey(results)


@gx.node(when_spent=m.Stopped, asks=1)
def hesitate(topic: m.Topic) -> gx.Asks[m.Question, m.Interview]:
    first = yield gx.All(())
    answer = yield from gx.ask(m.Question(f"{topic.name} {first}"))
    last = yield gx.All(())
    return m.Interview((answer, str(last)))


def test_empty_batch_is_answered_at_once() -> None:
    limits = agent_limits(seconds=0, fan_out=0, tool_calls=0)
    assert m.finish(m.machine_of(idle), m.Topic("tea"), limits).outcome == m.Survey(())
    result = m.run_machine(m.machine_of(hesitate), m.Topic("tea"), m.reporter())
    assert result.outcome == m.Interview(("re: tea ()", "()"))
    assert [type(effect) for effect in result.asked] == [m.Question]


@gx.node(when_spent=m.Stopped, opaque=True)
def fetch(left: m.Left) -> m.Total:
    return m.Total("")


def test_replies_are_checked_and_counted() -> None:
    state = m.pending(m.machine_of(fetch), m.Left(1))
    assert "fetch returned a Number" in m.error_message(UndeclaredOutcomeError, state.reply, m.Number(3))
    assert m.finish(m.machine_of(fetch), state.reply(m.Total("so"))).outcome == m.Total("so")
    replies = ModelReply("so", usage=Usage(2, 3)), ModelReply("so", usage=Usage(10, 0))
    spent = m.pending(m.BRAINSTORM, m.Prompt()).reply(replies).spent
    assert (spent["prompt_tokens"], spent["completion_tokens"], silent_calls(spent)) == (12, 3, 0)


@cases(
    ("usage", "tokens", "silent"), (Usage(0, 0), 0, 1), (Usage(1, 0), 1, 0), (Usage(0, 1), 1, 0), (Usage(2, 3), 5, 0)
)
def test_call_without_token_report_has_no_count(usage: Usage, tokens: int, silent: int) -> None:
    state = m.pending(m.PROMPTS, m.Prompt())
    # The cost of a call is unknown until its reply.
    assert state.snapshot.spent == gx.Spent(meters={"model_calls": 1, "tokens": 1})
    spent = state.reply(ModelReply("so", usage=usage)).spent
    assert (spent["prompt_tokens"], spent["completion_tokens"]) == (usage.prompt_tokens, usage.completion_tokens)
    assert (reported_tokens(spent), silent_calls(spent), spent["tokens"]) == (tokens, silent, tokens + silent)


@cases(("limit", "calls", "reached", "wanted"), (0, 0, 0, 2), (1, 0, 0, 2), (2, 2, 2, 2), (3, 2, 2, 2), (4, 4, 4, 2))
def test_batch_needs_one_remaining_token_for_each_call(limit: int, calls: int, reached: int, wanted: int) -> None:
    result = m.run_machine(m.BRAINSTORM, m.Prompt(), m.model_of(Usage(), agent_limits(tokens=limit)))
    assert result.outcome == m.Stopped(m.Prompt(calls), gx.Exhausted("tokens", limit, reached))
    assert result.outcome.limit.wanted == wanted
    assert (silent_calls(result.spent), result.spent["tokens"]) == (calls, calls)


PAIR = m.pending(m.SURVEY, m.Topics(("a", "b")))
ASKED = "interview asked for Question and was answered with"
OF_TWO = "a batch of 2 effects was answered with {!r}; give a tuple with a reply to each"
BEFORE = "the reply has at={}; give the seconds since the start of the run, 0 or more"
# Any: type checkers refuse most of these.
reply_pair: Any = PAIR.reply


@cases(
    ("answer", "text"),
    (lambda: TEA.cut(at=2.5), f"{ASKED} a Cut, but the run has no deadline; give a reply"),
    (lambda: TEA.reply(LATE), f"{ASKED} an Exhausted, which only the engine creates; give a reply"),
    (
        lambda: run(m.INTERVIEW, m.Topic("tea"), handlers={m.Question: lambda question: LATE}),
        f"{ASKED} an Exhausted, which only the engine creates; give a reply",
    ),
    *((partial(reply_pair, one), OF_TWO.format(one)) for one in (("a",), ("a", "b", "c"), (), "ab", 3, None)),
    *((partial(TEA.reply, "", at=at), BEFORE.format(at)) for at in (-1, -0.001, math.nan)),
    *((partial(TEA.cut, at=at), BEFORE.format(at)) for at in (-1, -0.001, math.nan)),
)
def test_invalid_answer_is_refused(answer: Callable[[], object], text: str) -> None:
    assert m.error_message(InputError, answer) == text


@cases(("at", "seconds"), (None, 3.0), (1.0, 3.0), (4.0, 4.0))
def test_clock_never_goes_back(at: float | None, seconds: float) -> None:
    first = TEA.reply("a", at=3.0)
    assert first.spent.seconds == 3.0
    assert m.pending(m.INTERVIEW, first).reply("b", at=at).spent.seconds == seconds
