"""Replies: cut effects, outcomes of opaque nodes, tokens, seconds, and invalid replies."""

from functools import partial
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens, silent_calls
from graphexec.errors import InputError, UndeclaredOutcomeError
from graphexec.kernel import Cut, PendingEffect
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime import make_run_context, run
from tests.drivers import Script, run_script
from tests.kernel.machines import (
    INTERVIEW,
    PROMPTS,
    SURVEY,
    Interview,
    Left,
    Number,
    Prompt,
    Question,
    Stopped,
    Survey,
    Topic,
    Topics,
    Total,
    model_of,
    reporter,
    surveyors,
)
from tests.parameters import cases


def first_request(machine: gx.Graph[Any, Any], value: object, limits: gx.Limits | None = None) -> PendingEffect:
    state = gx.advance(machine, gx.begin(machine, value), limits or gx.Limits())
    assert isinstance(state, PendingEffect)
    return state


def run_to_end(machine: gx.Graph[Any, Any], snapshot: gx.Snapshot, limits: gx.Limits | None = None) -> gx.Done[Any]:
    done = gx.advance(machine, snapshot, limits or gx.Limits())
    assert isinstance(done, gx.Done)
    return done


@gx.charged(when_spent=Stopped)
@gx.node
def look(left: Left) -> gx.Asks[CallTool, Total]:
    result = yield from gx.ask(CallTool("look", ""))
    return Total(f"{result.status}: {result.observation}")


LOOK: gx.Graph[Left, Total | Stopped] = gx.graph(
    gx.edges(look, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=look
)

# ---- cut effects


def test_cut_effect_with_own_reply_continues_its_node() -> None:
    limits = gx.Limits(seconds=2)
    done = run_to_end(LOOK, first_request(LOOK, Left(1), limits).cut(at=2.5), limits)
    assert done.outcome == Total("cut: look was cut off: the limit of 2 seconds was reached (2.5 spent).")
    assert done.spent == gx.Spent(seconds=2.5, meters={"tool_calls": 1})


def test_cut_effect_without_own_reply_leaves_its_node() -> None:
    limits = gx.Limits(seconds=2)
    done = run_to_end(INTERVIEW, first_request(INTERVIEW, Topic("tea"), limits).cut(at=2.5), limits)
    assert done.outcome == Stopped(Topic("tea"), gx.Exhausted("seconds", 2, 2.5))


def test_cut_without_a_deadline_is_refused() -> None:
    text = "interview asked for Question and was answered with a Cut, but the run has no deadline; give a reply"
    with pytest.raises(InputError, match=text):
        first_request(INTERVIEW, Topic("tea")).cut(at=2.5)


def test_exhausted_as_a_reply_is_refused() -> None:
    spent = gx.Exhausted("iterations", 1, 1)
    text = (
        "interview asked for Question and was answered with an Exhausted, which only the engine creates; give a reply"
    )
    with pytest.raises(InputError, match=text):
        first_request(INTERVIEW, Topic("tea")).reply(spent)
    with pytest.raises(InputError, match="an Exhausted, which only the engine creates"):
        run(INTERVIEW, Topic("tea"), make_run_context({Question: lambda question: spent}))


def test_cut_effect_used_all_remaining_time() -> None:
    limits = gx.Limits(seconds=2)
    done = run_to_end(INTERVIEW, first_request(INTERVIEW, Topic("tea"), limits).cut(at=1.999), limits)
    assert done.outcome == Stopped(Topic("tea"), gx.Exhausted("seconds", 2, 2))


def test_no_limit_stops_an_empty_batch() -> None:
    @gx.charged(when_spent=Stopped)
    @gx.node
    def idle(topic: Topic) -> gx.Asks[CallTool, Survey]:
        results = yield gx.All(())
        return Survey(results)

    machine = gx.graph(gx.edges(idle, gx.on(Survey, gx.END) | gx.on(Stopped, gx.END)), start=idle)
    state = gx.advance(machine, gx.begin(machine, Topic("tea")), agent_limits(seconds=0, fan_out=0, tool_calls=0))
    assert isinstance(state, gx.Done)
    assert state.outcome == Survey(())


def test_node_may_ask_after_an_empty_batch() -> None:
    @gx.charged(when_spent=Stopped, asks=1)
    @gx.node
    def hesitate(topic: Topic) -> gx.Asks[Question, Interview]:
        first = yield gx.All(())
        answer = yield from gx.ask(Question(f"{topic.name} {first}"))
        last = yield gx.All(())
        return Interview((answer, str(last)))

    machine = gx.graph(gx.edges(hesitate, gx.on(Interview, gx.END) | gx.on(Stopped, gx.END)), start=hesitate)
    result = run_script(lambda: Script(machine, Topic("tea"), reporter()))
    assert result.outcome == Interview(("re: tea ()", "()"))
    assert [type(effect) for effect in result.asked] == [Question]


def test_cut_members_keep_their_place_in_the_replies() -> None:
    limits = gx.Limits(seconds=2)
    state = first_request(SURVEY, Topics(("a", "b", "c")), limits)
    done = run_to_end(SURVEY, state.cut(at=2.0, answers=(ToolResult("A"), Cut(), ToolResult("C"))), limits)
    assert isinstance(done.outcome, Survey)
    assert [(one.observation, one.status) for one in done.outcome.results] == [
        ("A", "ok"),
        ("b was cut off: the limit of 2 seconds was reached (2 spent).", "cut"),
        ("C", "ok"),
    ]


def test_unfinished_batch_is_cut_as_a_whole() -> None:
    limits = gx.Limits(seconds=2)
    done = run_to_end(SURVEY, first_request(SURVEY, Topics(("a", "b")), limits).cut(at=2.0), limits)
    assert isinstance(done.outcome, Survey)
    assert [one.status for one in done.outcome.results] == ["cut", "cut"]


@cases("finished", [(ToolResult("A"),), (ToolResult("A"), Cut(), Cut())])
def test_cut_batch_needs_an_item_for_each_member(finished: tuple[object, ...]) -> None:
    state = first_request(SURVEY, Topics(("a", "b")), gx.Limits(seconds=2))
    with pytest.raises(ValueError, match=r"argument 2 is|give"):
        state.cut(at=2.0, answers=finished)


def test_single_effect_is_cut_without_finished() -> None:
    state = first_request(LOOK, Left(1), gx.Limits(seconds=2))
    with pytest.raises(InputError) as caught:
        state.cut(at=2.0, answers=(Cut(),))
    assert str(caught.value) == "CallTool is not a batch; leave out answers="


@gx.charged(when_spent=Stopped)
@gx.node
def both(left: Left) -> gx.Asks[CallTool | Question, Total]:
    # Any: the type checkers cannot distinguish the replies of the two effects.
    mixed: Any = [CallTool("look", ""), Question("?")]
    first, second = yield from gx.ask_all(mixed)
    return Total(f"{first} {second}")


BOTH: gx.Graph[Left, Total | Stopped] = gx.graph(
    gx.edges(both, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=both
)


@cases("finished", [(), (ToolResult("A"), Cut()), (Cut(), Cut())])
def test_cut_member_without_own_reply_leaves_the_node(finished: tuple[object, ...]) -> None:
    limits = gx.Limits(seconds=2)
    done = run_to_end(BOTH, first_request(BOTH, Left(1), limits).cut(at=2.0, answers=finished), limits)
    assert done.outcome == Stopped(Left(1), gx.Exhausted("seconds", 2, 2))


def test_node_continues_if_that_member_has_finished() -> None:
    limits = gx.Limits(seconds=2)
    done = run_to_end(BOTH, first_request(BOTH, Left(1), limits).cut(at=2.0, answers=(Cut(), "yes")), limits)
    assert isinstance(done.outcome, Total)
    assert done.outcome.text.endswith("status='cut', return_direct=False, model_text=None, error=None) yes")


# ---- outcomes of opaque nodes


def test_undeclared_opaque_outcome_is_not_stored() -> None:
    @gx.charged(when_spent=Stopped)
    @gx.opaque
    def fetch(left: Left) -> Total:
        return Total("")

    machine = gx.graph(gx.edges(fetch, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=fetch)
    state = first_request(machine, Left(1))
    with pytest.raises(UndeclaredOutcomeError, match="fetch returned a Number"):
        state.reply(Number(3))
    assert run_to_end(machine, state.reply(Total("so"))).outcome == Total("so")


# ---- tokens


@cases(
    ("usage", "tokens", "silent"),
    [
        (Usage(0, 0), 0, 1),
        (Usage(1, 0), 1, 0),
        (Usage(0, 1), 1, 0),
        (Usage(2, 3), 5, 0),
    ],
)
def test_call_without_token_report_has_no_count(usage: Usage, tokens: int, silent: int) -> None:
    state = first_request(PROMPTS, Prompt())
    # The cost of a call is unknown until its reply.
    assert state.snapshot.spent == gx.Spent(meters={"model_calls": 1, "tokens": 1})
    spent = state.reply(ModelReply("so", usage=usage)).spent
    assert (spent["prompt_tokens"], spent["completion_tokens"]) == (usage.prompt_tokens, usage.completion_tokens)
    assert (reported_tokens(spent), silent_calls(spent), spent["tokens"]) == (tokens, silent, tokens + silent)


@cases(("usage", "limit", "calls"), [(Usage(1, 0), 3, 3), (Usage(), 3, 3), (Usage(0, 2), 3, 2)])
def test_call_is_charged_at_least_one_token(usage: Usage, limit: int, calls: int) -> None:
    result = run_script(lambda: Script(PROMPTS, Prompt(), model_of(usage, agent_limits(tokens=limit))))
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.at == Prompt(calls)
    reached = max(1, usage.total_tokens) * calls
    assert result.outcome.limit == gx.Exhausted("tokens", limit, reached)


@gx.charged(when_spent=Stopped)
@gx.node
def brainstorm(given: Prompt) -> gx.Asks[CallModel, Prompt]:
    replies = yield from gx.ask_all([CallModel(CompletionRequest("left")), CallModel(CompletionRequest("right"))])
    return Prompt(given.calls + len(replies))


BRAINSTORM = gx.graph(gx.edges(brainstorm, gx.on(Prompt, brainstorm) | gx.on(Stopped, gx.END)), start=brainstorm)


@cases(("limit", "calls", "reached", "wanted"), [(0, 0, 0, 2), (1, 0, 0, 2), (2, 2, 2, 2), (3, 2, 2, 2), (4, 4, 4, 2)])
def test_batch_needs_one_remaining_token_for_each_call(limit: int, calls: int, reached: int, wanted: int) -> None:
    result = run_script(lambda: Script(BRAINSTORM, Prompt(), model_of(Usage(), agent_limits(tokens=limit))))
    assert result.outcome == Stopped(Prompt(calls), gx.Exhausted("tokens", limit, reached))
    assert result.outcome.limit.wanted == wanted
    assert (silent_calls(result.spent), result.spent["tokens"]) == (calls, calls)


def test_finished_calls_of_a_cut_batch_are_charged() -> None:
    limits = gx.Limits(seconds=2)
    state = first_request(BRAINSTORM, Prompt(), limits)
    finished = ModelReply("so", usage=Usage(2, 3))
    for replies in ((finished, Cut()), (Cut(), finished)):
        done = run_to_end(BRAINSTORM, state.cut(at=2.0, answers=replies), limits)
        assert done.outcome == Stopped(Prompt(), gx.Exhausted("seconds", 2, 2))
        assert (done.spent["prompt_tokens"], done.spent["completion_tokens"], silent_calls(done.spent)) == (2, 3, 1)


def test_tokens_of_every_member_are_counted() -> None:
    replies = ModelReply("so", usage=Usage(2, 3)), ModelReply("so", usage=Usage(10, 0))
    spent = first_request(BRAINSTORM, Prompt()).reply(replies).spent
    assert (spent["prompt_tokens"], spent["completion_tokens"], silent_calls(spent)) == (12, 3, 0)


# ---- replies


@cases("replies", [("a",), ("a", "b", "c"), (), "ab", 3, None])
def test_batch_needs_one_reply_for_each_member(replies: Any) -> None:
    state = first_request(SURVEY, Topics(("a", "b")))
    assert isinstance(state.effect, gx.All)
    with pytest.raises(InputError) as caught:
        state.reply(replies)
    assert str(caught.value) == f"a batch of 2 effects was answered with {replies!r}; give a tuple with a reply to each"


@cases("replies", [(ToolResult("A"), ToolResult("B")), [ToolResult("A"), ToolResult("B")]])
def test_replies_are_a_tuple_or_a_list(replies: Any) -> None:
    state = first_request(SURVEY, Topics(("a", "b")))
    assert run_to_end(SURVEY, state.reply(replies)).outcome == Survey((ToolResult("A"), ToolResult("B")))


@cases("at", [-1, -0.001, float("nan")])
def test_reply_before_the_run_is_refused(at: float) -> None:
    state = first_request(LOOK, Left(1))
    text = f"the reply has at={at}; give the seconds since the start of the run, 0 or more"
    for answer in (partial(state.reply, ToolResult("")), state.cut):
        with pytest.raises(InputError) as caught:
            answer(at=at)
        assert str(caught.value) == text


def test_clock_never_goes_back() -> None:
    first = first_request(INTERVIEW, Topic("tea")).reply("a", at=3.0)
    assert first.spent.seconds == 3.0
    second = gx.advance(INTERVIEW, first, gx.Limits())
    assert isinstance(second, PendingEffect)
    assert second.reply("b").spent.seconds == 3.0
    assert second.reply("b", at=1.0).spent.seconds == 3.0
    assert second.reply("b", at=4.0).spent.seconds == 4.0
    assert first_request(INTERVIEW, Topic("tea")).reply("a", at=0).spent.seconds == 0
    assert second.deadline is None
    assert first_request(INTERVIEW, Topic("tea"), gx.Limits(seconds=5)).deadline == 5


def test_refused_batch_reports_how_many_it_wanted() -> None:
    thoughts = run_script(lambda: Script(BRAINSTORM, Prompt(), model_of(Usage(), agent_limits(model_calls=3)))).outcome
    assert thoughts == Stopped(Prompt(2), gx.Exhausted("model_calls", 3, 2))
    assert thoughts.limit.wanted == 2
    looks = run_script(lambda: Script(SURVEY, Topics(("a", "b", "c")), surveyors(agent_limits(tool_calls=2)))).outcome
    assert looks == Stopped(Topics(("a", "b", "c")), gx.Exhausted("tool_calls", 2, 0))
    assert isinstance(looks, Stopped)
    assert looks.limit.wanted == 3
