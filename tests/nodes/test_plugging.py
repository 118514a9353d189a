"""Pieces sit on every edge of their class, in the order of the list, and can be taken out again."""

import dataclasses
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects, messages, models, testing, verify
from graphexec.actions import Refusal, Run
from graphexec.executor import Acted, Observed, Ready, Replied, Stopped
from graphexec.messages import ModelReply
from graphexec.nodes import HOMES, Piece, critic
from tests.executor import actors
from tests.kernel.machines import pure, value
from tests.nodes import shelf
from tests.nodes.shelf import call
from tests.parameters import cases


def make_executor(*replies: ModelReply | str, **options: Any) -> gx.AgentExecutor:
    return shelf.make_executor(options.pop("nodes", ()), replies or ["done"], **options)


@gx.node
def sign(finish: gx.AgentFinish) -> gx.AgentFinish:
    """Sign the answer, without its run."""
    return gx.AgentFinish({"output": f"{finish.output} (signed)"})


@gx.node
def doubt(finish: gx.AgentFinish) -> gx.AgentFinish:
    return gx.AgentFinish({"output": f"{finish.output}?"}, "", finish.run)


@gx.node
def forbid(acted: Acted) -> Acted | Stopped:
    return Stopped.by_refusal(acted.run, "forbid", "no calls") if acted.actions else acted


pass_on = pure("pass_on", Ready, Ready, lambda ready: ready)
plan = pure("plan", Ready, Ready, lambda ready: ready)
again = pure("again", Stopped, Stopped | Ready, lambda reached: Ready(reached.run))
pass_acted = pure("pass_acted", Acted, Acted, lambda acted: acted)


GATING = Piece("gating", (forbid,), gates=True)


def say_yes(_: gx.AskHuman) -> str:
    return "yes"


def edges_of(executor: gx.AgentExecutor) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.outcome.__name__, edge.target) for edge in executor.graph.edges}


class TestSeats:
    def test_piece_sits_on_every_edge_of_its_class(self) -> None:
        edges = edges_of(make_executor().plug(sign))
        ends = {(source, to) for source, kind, to in edges if kind == "AgentFinish"}
        assert ends == {("parse", "sign"), ("check_return_direct", "sign"), ("sign", "END")}
        assert {home for home in HOMES.values() if home != "END"} <= {*make_executor().graph.nodes}
        assert {Replied, Observed, gx.StoppedResponse} < {*HOMES}

    def test_first_of_the_list_is_outermost(self) -> None:
        executor = make_executor().plug(sign, doubt)
        assert executor.seats()[gx.AgentFinish] == ("doubt", "sign")
        assert executor.run("hi").output == "done? (signed)"

    def test_seats_print_the_way_to_each_home(self) -> None:
        once = Piece("first", (pass_on,), once=True)
        events = make_executor(call("a"), "done").plug(once).stream("hi")
        entered = [event.node for event in events if isinstance(event, gx.Entered)]
        assert (entered.count("plan"), entered.count("pass_on")) == (2, 1), "once is before the first decision only"
        assert str(make_executor().plug(once, sign, doubt, forbid).seats()) == (
            "Ready (once): first > plan\nActed:        forbid > dispatch_tools\nAgentFinish:  doubt > sign > END"
        )
        assert repr(make_executor().seats()) == "no pieces"

    def test_pieces_that_act_come_after_those_that_gate(self) -> None:
        acting = Piece("acting", (pass_acted,), acts=True)
        edit = Piece("edit", (dataclasses.replace(pass_acted, name="edit"),))
        for pieces in ([acting, GATING, edit], [edit, GATING, acting], [GATING, edit, acting]):
            assert make_executor().plug(*pieces).seats()[Acted] == ("edit", "gating", "acting")

    def test_own_outcome_goes_to_the_piece_that_takes_it(self) -> None:
        executor = make_executor("short", "long enough").plug(lengthen(times=2))
        assert executor.run("hi").output == "long enough"
        assert ("judge", "Short", "again") in edges_of(executor)


@value
class Short:
    finish: gx.AgentFinish

    @property
    def run(self) -> object:
        return self.finish.run


def lengthen(times: int) -> Piece:
    @gx.node
    def judge(finish: gx.AgentFinish) -> gx.AgentFinish | Short:
        return finish if len(finish.output) > 5 else Short(finish)

    def anyway(short: Short, limit: object) -> gx.AgentFinish:
        return short.finish

    @gx.node(when_spent=anyway, meters=[gx.Meter("attempts", times)])
    def again(short: Short) -> Ready:
        return Ready(short.finish.run)

    return Piece("lengthen", (judge, again))


class TestRemoval:
    def test_unplugging_everything_restores_the_machine(self) -> None:
        executor = make_executor()
        plugged = executor.plug(sign, forbid, lengthen(2), Piece("first", (pass_on,), once=True))
        restored = plugged.unplug("forbid", "sign").unplug("lengthen", "first")
        assert restored.graph.edges == executor.graph.edges
        assert [*restored.graph.nodes] == [*executor.graph.nodes]
        assert restored.verify().certificate == executor.verify().certificate
        assert restored.agent is executor.agent
        with pytest.raises(gx.InputError, match=r"sing is not plugged; the executor has .*sign"):
            plugged.unplug("sing")

    def test_piece_stays_in_a_spliced_machine(self) -> None:
        plugged = make_executor().plug(sign)
        changed = plugged.with_graph(plugged.graph)
        assert changed.run("hi").output == "done (signed)"
        with pytest.raises(gx.InputError, match="sign is a part of the machine"):
            changed.unplug("sign")
        assert changed.plug(doubt).run("hi").output == "done (signed)?"


@cases("stopping", "force", "generate")
def test_refusal_ends_the_run_without_a_model(stopping: str) -> None:
    executor = make_executor(call("a"), early_stopping_method=stopping).plug(forbid)
    result = executor.run("hi")
    assert result.reason == "refused"
    assert result.stopped is not None
    assert result.stopped.cause == Refusal("forbid", "no calls")
    assert result.output == "Agent stopped: refused by forbid: no calls"
    assert result.spent.meters["model_calls"] == 1


KNOWN, NO = effects.ToolResult("known", "rejected"), effects.ToolResult("no", "rejected")


class TestAnswers:
    @cases(
        ("actions", "place", "answer", "error", "text"),
        (2, 2, 0, IndexError, "there is no action 2"),
        (2, 1, 1, gx.InputError, "the answer 1 for action 1; give None, a ToolResult"),
        (0, 0, KNOWN, IndexError, "there is no action 0; there are 0"),
    )
    def test_wrong_places_are_refused(self, actions: int, place: int, answer: Any, error: Any, text: str) -> None:
        with pytest.raises(error, match=text):
            Acted(Run({}), (gx.AgentAction("search", "a"),) * actions).answer(place, answer)

    @cases(
        ("answers", "text"),
        ((None, NO), "2 answers for 1 actions; keep the actions"),
        *(((one,), f"the answer {one!r} for action 0") for one in (0, -1, "no")),
    )
    def test_answers_belong_to_actions(self, answers: Any, text: str) -> None:
        """Without its rejected neighbour, an action would take over the answer, and a rejected one lose it."""
        with pytest.raises(gx.InputError, match=text):
            Acted(Run({}), (gx.AgentAction("look_up", "x"),), answers)

    @cases(
        ("answers", "steps", "called"),
        ({0: KNOWN}, [("known", "rejected"), ("found b", "ok")], 1),
        # The place of an earlier action.
        ({1: 0}, [("found a", "ok"), ("found a", "ok")], 1),
        ({0: NO, 1: NO}, [("no", "rejected"), ("no", "rejected")], 0),
    )
    def test_answered_action_is_not_called(self, answers: Any, steps: list[Any], called: int) -> None:
        @gx.node
        def answer(acted: Acted) -> Acted:
            for place, one in answers.items():
                acted = acted.answer(place, one)
            assert acted.open == tuple({0, 1} - {*answers})
            return acted

        result = make_executor(call("a", "b"), "done").plug(answer).run("hi")
        assert [(step.observation, step.status) for step in result.steps] == steps
        assert result.spent["tool_calls"] == called

    def test_answers_are_stored(self) -> None:
        action = gx.AgentAction("look_up", {"x": "a"})
        stored = gx.Snapshot("dispatch_tools", Acted(Run({}), (action, action), (KNOWN, 0)))
        assert gx.Snapshot.from_json(stored.to_json(), make_executor().graph) == stored


take_short = pure("take_short", Short, gx.AgentFinish, lambda short: short.finish)
return_short = pure("return_short", gx.AgentFinish, gx.AgentFinish | Short, lambda finish: finish)


class TestWrongPieces:
    @cases(
        ("pieces", "error", "text"),
        ([sign, sign], gx.GraphError, "sign is plugged twice"),
        ([plan], gx.GraphError, "the machine and plan have a node plan"),
        ([take_short], gx.InputError, "piece take_short takes Short, which has no home; take one of Ready"),
        ([return_short], gx.GraphError, "return_short returns Short, which has no home, and no node of return_sh"),
        ([again], verify.UnprovedError, "again"),
        ([lengthen], gx.InputError, "lengthen is a function; call it, lengthen"),
        (["critic"], gx.InputError, "'critic' is not a piece; pass a piece"),
        ([Piece], gx.InputError, "is not a piece"),
        ([make_executor()], gx.InputError, "is not a piece; pass a piece such as"),
    )
    def test_wrong_pieces_are_refused(self, pieces: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            make_executor().plug(*pieces)

    @cases("pieces", critic(), critic, "critic")
    def test_pieces_are_a_list(self, pieces: Any) -> None:
        with pytest.raises(gx.InputError, match=r"nodes is .*; give a list of pieces: nodes="):
            make_executor(nodes=pieces)

    def test_model_behind_a_revealing_piece_is_refused(self) -> None:
        @gx.node
        def judge(finish: gx.AgentFinish) -> gx.Asks[gx.AskHuman, gx.AgentFinish | Ready]:
            reply = yield from gx.ask(gx.AskHuman("ok?"))
            return finish if reply == "yes" else Ready(finish.run)

        executor, reveal = make_executor(handlers={gx.AskHuman: say_yes}), Piece("reveal", (sign,), reveals=True)
        with pytest.raises(gx.GraphError, match=r"plan may ask a model after reveal, .* put reveal before judge in"):
            executor.plug(judge, reveal)
        assert executor.plug(reveal, judge).run("hi").output == "done (signed)"


class TestOtherParts:
    def test_piece_brings_tools_and_handlers(self) -> None:
        extra = testing.scripted_tool("extra", ["more"])

        @gx.node
        def confirm(acted: Acted) -> gx.Asks[gx.AskHuman, Acted]:
            yield from gx.ask(gx.AskHuman("go on?"))
            return acted

        model = models.ScriptedModel([actors.call("extra", x="y"), "done"])
        piece = Piece("more", (confirm,), tools=(extra,), handlers={gx.AskHuman: say_yes})
        executor = gx.create_agent(model, [], kind="tool_calling", nodes=[piece])
        assert [step.observation for step in executor.run("hi").steps] == ["more"]
        assert [*executor.tools] == ["extra"]
        assert [*executor.unplug("more").tools] == []

    def test_edits_change_every_request(self) -> None:
        def edits(request: messages.ModelRequest, run: object) -> messages.ModelRequest:
            assert isinstance(request, messages.ChatRequest)
            return dataclasses.replace(request, messages=(*request.messages, messages.UserMessage("Be brief.")))

        model = models.ScriptedModel(["done"])
        actors.caller_of(model, nodes=[Piece("brief", (), edits=edits)]).run("hi")
        assert model.requests[0].messages[-1] == messages.UserMessage("Be brief.")  # type: ignore[union-attr]

    def test_executor_takes_other_tools_handlers_and_agents(self) -> None:
        other = testing.scripted_tool("other", ["else"])
        executor = gx.create_agent(models.ScriptedModel(["done"]), [], kind="tool_calling").plug(sign)
        changed = executor.with_tools([other]).with_handlers({gx.AskHuman: lambda _: "x"})
        assert [*changed.tools] == ["other"]
        assert changed.agent.tools == (other,)
        assert gx.AskHuman in changed.run_context.handlers
        again = changed.with_agent(gx.create_tool_calling_agent(models.ScriptedModel(["new"]), [other]))
        assert again.run("hi").output == "new (signed)"
