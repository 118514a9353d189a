"""What an answer does to a run: it is taken as it is, or cut, counted in tokens and seconds, and stored."""

from functools import partial
from typing import Any

import pytest

from graphexec import (
    END,
    All,
    Asks,
    Done,
    Exhausted,
    Graph,
    Limits,
    Snapshot,
    Spent,
    advance,
    ask,
    ask_all,
    begin,
    charged,
    edges,
    graph,
    node,
    on,
    opaque,
)
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


def asking(machine: Graph[Any, Any], value: object, limits: Limits | None = None) -> PendingEffect:
    state = advance(machine, begin(machine, value), limits or Limits())
    assert isinstance(state, PendingEffect)
    return state


def ended(machine: Graph[Any, Any], snapshot: Snapshot, limits: Limits | None = None) -> Done[Any]:
    done = advance(machine, snapshot, limits or Limits())
    assert isinstance(done, Done)
    return done


@charged(when_spent=Stopped)
@node
def look(left: Left) -> Asks[CallTool, Total]:
    result = yield from ask(CallTool("look", ""))
    return Total(f"{result.status}: {result.observation}")


LOOK: Graph[Left, Total | Stopped] = graph(edges(look, on(Total, END) | on(Stopped, END)), start=look)

# ---- what the deadline cuts


def test_an_effect_that_has_a_reply_for_being_cut_is_answered_with_it_and_its_node_goes_on() -> None:
    limits = Limits(seconds=2)
    done = ended(LOOK, asking(LOOK, Left(1), limits).cut(at=2.5), limits)
    assert done.outcome == Total("cut: look was cut off: the limit of 2 seconds was reached (2.5 spent).")
    assert done.spent == Spent(seconds=2.5, meters={"tool_calls": 1})


def test_one_that_has_none_leaves_its_node() -> None:
    limits = Limits(seconds=2)
    done = ended(INTERVIEW, asking(INTERVIEW, Topic("tea"), limits).cut(at=2.5), limits)
    assert done.outcome == Stopped(Topic("tea"), Exhausted("seconds", 2, 2.5))


def test_only_a_deadline_cuts() -> None:
    text = "interview asked for Question and was answered with a Cut, but the run has no deadline; give a reply"
    with pytest.raises(InputError, match=text):
        asking(INTERVIEW, Topic("tea")).cut(at=2.5)


def test_only_the_engine_says_that_a_limit_is_spent() -> None:
    spent = Exhausted("iterations", 1, 1)
    text = (
        "interview asked for Question and was answered with an Exhausted, which only the engine creates; give a reply"
    )
    with pytest.raises(InputError, match=text):
        asking(INTERVIEW, Topic("tea")).reply(spent)
    with pytest.raises(InputError, match="an Exhausted, which only the engine creates"):
        run(INTERVIEW, Topic("tea"), make_run_context({Question: lambda question: spent}))


def test_what_is_cut_has_had_all_the_time_there_was() -> None:
    limits = Limits(seconds=2)
    done = ended(INTERVIEW, asking(INTERVIEW, Topic("tea"), limits).cut(at=1.999), limits)
    assert done.outcome == Stopped(Topic("tea"), Exhausted("seconds", 2, 2))


def test_to_ask_for_nothing_is_no_effect_that_a_limit_could_stop() -> None:
    @charged(when_spent=Stopped)
    @node
    def idle(topic: Topic) -> Asks[CallTool, Survey]:
        results = yield All(())
        return Survey(results)

    machine = graph(edges(idle, on(Survey, END) | on(Stopped, END)), start=idle)
    state = advance(machine, begin(machine, Topic("tea")), agent_limits(seconds=0, fan_out=0, tool_calls=0))
    assert isinstance(state, Done)
    assert state.outcome == Survey(())


def test_a_node_that_asked_for_nothing_goes_on_to_ask_for_something() -> None:
    @charged(when_spent=Stopped, asks=1)
    @node
    def hesitate(topic: Topic) -> Asks[Question, Interview]:
        first = yield All(())
        answer = yield from ask(Question(f"{topic.name} {first}"))
        last = yield All(())
        return Interview((answer, str(last)))

    machine = graph(edges(hesitate, on(Interview, END) | on(Stopped, END)), start=hesitate)
    result = run_script(lambda: Script(machine, Topic("tea"), reporter()))
    assert result.outcome == Interview(("re: tea ()", "()"))
    assert [type(effect) for effect in result.asked] == [Question]


def test_of_a_batch_those_that_are_cut_have_their_replies_among_the_others() -> None:
    limits = Limits(seconds=2)
    state = asking(SURVEY, Topics(("a", "b", "c")), limits)
    done = ended(SURVEY, state.cut(at=2.0, finished=(ToolResult("A"), Cut(), ToolResult("C"))), limits)
    assert isinstance(done.outcome, Survey)
    assert [(one.observation, one.status) for one in done.outcome.results] == [
        ("A", "ok"),
        ("b was cut off: the limit of 2 seconds was reached (2 spent).", "cut"),
        ("C", "ok"),
    ]


def test_a_batch_of_which_nothing_is_finished_is_cut_as_a_whole() -> None:
    limits = Limits(seconds=2)
    done = ended(SURVEY, asking(SURVEY, Topics(("a", "b")), limits).cut(at=2.0), limits)
    assert isinstance(done.outcome, Survey)
    assert [one.status for one in done.outcome.results] == ["cut", "cut"]


@pytest.mark.parametrize("finished", [(ToolResult("A"),), (ToolResult("A"), Cut(), Cut())])
def test_a_batch_that_is_cut_says_of_each_how_far_it_came(finished: tuple[object, ...]) -> None:
    state = asking(SURVEY, Topics(("a", "b")), Limits(seconds=2))
    with pytest.raises(ValueError, match=r"argument 2 is|give"):
        state.cut(at=2.0, finished=finished)


def test_what_is_no_batch_is_cut_without_saying_what_has_finished() -> None:
    state = asking(LOOK, Left(1), Limits(seconds=2))
    with pytest.raises(InputError) as caught:
        state.cut(at=2.0, finished=(Cut(),))
    assert str(caught.value) == "CallTool is not a batch; leave out finished="


@charged(when_spent=Stopped)
@node
def both(left: Left) -> Asks[CallTool | Question, Total]:
    # Of two kinds, whose replies the checkers cannot tell apart.
    mixed: Any = [CallTool("look", ""), Question("?")]
    first, second = yield from ask_all(mixed)
    return Total(f"{first} {second}")


BOTH: Graph[Left, Total | Stopped] = graph(edges(both, on(Total, END) | on(Stopped, END)), start=both)


@pytest.mark.parametrize("finished", [(), (ToolResult("A"), Cut()), (Cut(), Cut())])
def test_a_batch_with_one_that_has_no_reply_for_being_cut_leaves_its_node(finished: tuple[object, ...]) -> None:
    limits = Limits(seconds=2)
    done = ended(BOTH, asking(BOTH, Left(1), limits).cut(at=2.0, finished=finished), limits)
    assert done.outcome == Stopped(Left(1), Exhausted("seconds", 2, 2))


def test_it_goes_on_if_that_one_has_finished() -> None:
    limits = Limits(seconds=2)
    done = ended(BOTH, asking(BOTH, Left(1), limits).cut(at=2.0, finished=(Cut(), "yes")), limits)
    assert isinstance(done.outcome, Total)
    assert done.outcome.text.endswith("status='cut', return_direct=False, model_text=None, error=None) yes")


# ---- what an opaque node returns


def test_what_an_opaque_node_did_not_declare_is_refused_when_it_comes_and_not_stored() -> None:
    @charged(when_spent=Stopped)
    @opaque
    def fetch(left: Left) -> Total:
        return Total("")

    machine = graph(edges(fetch, on(Total, END) | on(Stopped, END)), start=fetch)
    state = asking(machine, Left(1))
    with pytest.raises(UndeclaredOutcomeError, match="fetch returned a Number"):
        state.reply(Number(3))
    assert ended(machine, state.reply(Total("so"))).outcome == Total("so")


# ---- tokens


@pytest.mark.parametrize(
    ("usage", "tokens", "silent"),
    [
        (Usage(0, 0), 0, 1),
        (Usage(1, 0), 1, 0),
        (Usage(0, 1), 1, 0),
        (Usage(2, 3), 5, 0),
    ],
)
def test_a_call_that_reports_no_tokens_is_silent(usage: Usage, tokens: int, silent: int) -> None:
    state = asking(PROMPTS, Prompt())
    # Until the answer comes it is not known what the call takes.
    assert state.snapshot.spent == Spent(meters={"model_calls": 1, "tokens": 1})
    spent = state.reply(ModelReply("so", usage=usage)).spent
    assert (spent["prompt_tokens"], spent["completion_tokens"]) == (usage.prompt_tokens, usage.completion_tokens)
    assert (reported_tokens(spent), silent_calls(spent), spent["tokens"]) == (tokens, silent, tokens + silent)


@pytest.mark.parametrize(("usage", "limit", "calls"), [(Usage(1, 0), 3, 3), (Usage(), 3, 3), (Usage(0, 2), 3, 2)])
def test_a_call_is_charged_what_it_reports_and_one_token_at_least(usage: Usage, limit: int, calls: int) -> None:
    result = run_script(lambda: Script(PROMPTS, Prompt(), model_of(usage, agent_limits(tokens=limit))))
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.at == Prompt(calls)
    reached = max(1, usage.total_tokens) * calls
    assert result.outcome.limit == Exhausted("tokens", limit, reached)


@charged(when_spent=Stopped)
@node
def brainstorm(given: Prompt) -> Asks[CallModel, Prompt]:
    replies = yield from ask_all([CallModel(CompletionRequest("left")), CallModel(CompletionRequest("right"))])
    return Prompt(given.calls + len(replies))


BRAINSTORM = graph(edges(brainstorm, on(Prompt, brainstorm) | on(Stopped, END)), start=brainstorm)


@pytest.mark.parametrize(
    ("limit", "calls", "reached", "wanted"), [(0, 0, 0, 2), (1, 0, 0, 2), (2, 2, 2, 2), (3, 2, 2, 2), (4, 4, 4, 2)]
)
def test_a_batch_is_let_through_if_a_token_is_left_for_each_of_its_calls(
    limit: int, calls: int, reached: int, wanted: int
) -> None:
    result = run_script(lambda: Script(BRAINSTORM, Prompt(), model_of(Usage(), agent_limits(tokens=limit))))
    assert result.outcome == Stopped(Prompt(calls), Exhausted("tokens", limit, reached))
    assert result.outcome.limit.wanted == wanted
    assert (silent_calls(result.spent), result.spent["tokens"]) == (calls, calls)


def test_of_a_batch_that_is_cut_the_calls_that_have_finished_are_paid_for() -> None:
    limits = Limits(seconds=2)
    state = asking(BRAINSTORM, Prompt(), limits)
    finished = ModelReply("so", usage=Usage(2, 3))
    for replies in ((finished, Cut()), (Cut(), finished)):
        done = ended(BRAINSTORM, state.cut(at=2.0, finished=replies), limits)
        assert done.outcome == Stopped(Prompt(), Exhausted("seconds", 2, 2))
        assert (done.spent["prompt_tokens"], done.spent["completion_tokens"], silent_calls(done.spent)) == (2, 3, 1)


def test_of_a_batch_every_call_is_counted_in_tokens() -> None:
    replies = ModelReply("so", usage=Usage(2, 3)), ModelReply("so", usage=Usage(10, 0))
    spent = asking(BRAINSTORM, Prompt()).reply(replies).spent
    assert (spent["prompt_tokens"], spent["completion_tokens"], silent_calls(spent)) == (12, 3, 0)


# ---- the replies themselves


@pytest.mark.parametrize("replies", [("a",), ("a", "b", "c"), (), "ab", 3, None])
def test_a_batch_is_answered_by_as_many_replies(replies: Any) -> None:
    state = asking(SURVEY, Topics(("a", "b")))
    assert isinstance(state.effect, All)
    with pytest.raises(InputError) as caught:
        state.reply(replies)
    assert str(caught.value) == f"a batch of 2 effects was answered with {replies!r}; give a tuple with a reply to each"


@pytest.mark.parametrize("replies", [(ToolResult("A"), ToolResult("B")), [ToolResult("A"), ToolResult("B")]])
def test_they_come_as_a_tuple_or_a_list(replies: Any) -> None:
    state = asking(SURVEY, Topics(("a", "b")))
    assert ended(SURVEY, state.reply(replies)).outcome == Survey((ToolResult("A"), ToolResult("B")))


@pytest.mark.parametrize("at", [-1, -0.001, float("nan")])
def test_an_answer_does_not_come_before_the_run(at: float) -> None:
    state = asking(LOOK, Left(1))
    text = f"at is {at}; give the seconds since the start of the run, 0 or more"
    for answer in (partial(state.reply, ToolResult("")), state.cut):
        with pytest.raises(InputError) as caught:
            answer(at=at)
        assert str(caught.value) == text


def test_time_does_not_go_back_and_stands_still_where_nobody_says_it() -> None:
    first = asking(INTERVIEW, Topic("tea")).reply("a", at=3.0)
    assert first.spent.seconds == 3.0
    second = advance(INTERVIEW, first, Limits())
    assert isinstance(second, PendingEffect)
    assert second.reply("b").spent.seconds == 3.0
    assert second.reply("b", at=1.0).spent.seconds == 3.0
    assert second.reply("b", at=4.0).spent.seconds == 4.0
    assert asking(INTERVIEW, Topic("tea")).reply("a", at=0).spent.seconds == 0
    assert second.deadline is None
    assert asking(INTERVIEW, Topic("tea"), Limits(seconds=5)).deadline == 5


def test_a_limit_that_does_not_allow_a_batch_says_how_many_it_wanted() -> None:
    thoughts = run_script(lambda: Script(BRAINSTORM, Prompt(), model_of(Usage(), agent_limits(model_calls=3)))).outcome
    assert thoughts == Stopped(Prompt(2), Exhausted("model_calls", 3, 2))
    assert thoughts.limit.wanted == 2
    looks = run_script(lambda: Script(SURVEY, Topics(("a", "b", "c")), surveyors(agent_limits(tool_calls=2)))).outcome
    assert looks == Stopped(Topics(("a", "b", "c")), Exhausted("tool_calls", 2, 0))
    assert isinstance(looks, Stopped)
    assert looks.limit.wanted == 3
