"""`approve_tools`: a person decides about calls before they are made."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects, models, tools
from graphexec import nodes as shelf
from graphexec.actions import Run
from graphexec.executor import Acted, Observed, Ready, limit_reached
from graphexec.kernel.effects import members_of
from graphexec.kernel.events import Asked
from graphexec.kernel.tables import reachable
from graphexec.messages import AssistantMessage, ChatRequest, ModelReply, ToolCall
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import Piece, Plugged, Review, ReviewCall, ReviewDecision, approve_tools
from graphexec.nodes.approvals import MOST_REVIEWS, replace_arguments
from tests.executor.actors import call, caller_of, messages
from tests.kernel.machines import pure
from tests.nodes.shelf import make_executor, pause, resume
from tests.parameters import cases

Decide = Callable[[ReviewCall], Any]
When = Callable[[gx.AgentAction], bool]
ALL: tuple[ReviewDecision, ...] = ("approve", "edit", "reject", "respond")


class Files:
    """Tools that keep what they were called with."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.tools: list[tools.AnyTool] = [
            self.make_tool("delete", "deleted"),
            self.make_tool("read", "text of"),
            self.make_tool("show", "page of", return_direct=True),
        ]

    def make_tool(self, name: str, result: str, *, return_direct: bool = False) -> tools.AnyTool:
        def act(path: str) -> str:
            self.called.append(f"{name} {path}")
            return f"{result} {path}"

        return gx.tool(name=name, description=f"{name} a file.", return_direct=return_direct)(act)


def calls(*several: str) -> ModelReply:
    """Return a reply that makes calls, such as `delete a`."""
    made = [one.split() for one in several]
    return ModelReply(
        "", tuple(ToolCall(f"c{place}", name, json.dumps({"path": path})) for place, (name, path) in enumerate(made))
    )


class Scene:
    """An executor with files, gated tools and a scripted model."""

    def __init__(self, *replies: ScriptedReply, nodes: tuple[Plugged, ...] = (), **options: Any) -> None:
        self.files = Files()
        self.model = models.ScriptedModel([*replies, "done"], repeat_last=True)
        self.executor = caller_of(self.model, *self.files.tools, nodes=nodes, **options)


def gate(decide: Decide | None = None, *, when: When | None = None, name: str = "approve_tools") -> Piece:
    return approve_tools({"delete": ALL}, when=when, reviewer=decide, name=name)


def noting(asked: list[ReviewCall], decision: ReviewDecision = "approve", **more: Any) -> Decide:
    """Return a reviewer that notes what it is asked about."""

    def review(call: ReviewCall) -> Review:
        asked.append(call)
        return Review(decision, **more)

    return review


APPROVE, REJECT = noting([]), noting([], "reject")
EDIT = noting([], "edit", arguments={"path": "b"})
A = {"path": "a"}
REJECTED = "delete was not called: a person rejected this call."


def path_of(call: ReviewCall) -> str:
    assert isinstance(call.arguments, dict)
    return str(call.arguments["path"])


def steps_of(steps: Any) -> list[tuple[Any, str]]:
    return [(step.observation, step.status) for step in steps]


class TestDecisions:
    @cases(
        ("called", "review", "steps", "done"),
        ("delete a", Review("approve"), [("deleted a", "ok")], ["delete a"]),
        ("delete a", Review("reject", "Keep it."), [(f"{REJECTED} Keep it.", "rejected")], []),
        ("delete a", Review("respond", "It is gone."), [("It is gone.", "ok")], []),
        ("read a", "never asked", [("text of a", "ok")], ["read a"]),
        ("Delete a", Review("reject"), [(f"D{REJECTED[1:]} Do not repeat the call.", "rejected")], []),
    )
    def test_decision_is_carried_out(self, called: str, review: Any, steps: list[Any], done: list[str]) -> None:
        scene = Scene(calls(called), nodes=(gate(lambda _: review),), tool_lookup="case_insensitive")
        assert steps_of(scene.executor.run("hi").steps) == steps
        assert scene.files.called == done

    def test_reviewer_sees_the_call(self) -> None:
        seen: list[ReviewCall] = []
        reply = ModelReply("I clean up.", calls("delete a").tool_calls)
        Scene(reply, nodes=(gate(noting(seen)),)).executor.run("hi")
        (asked,) = seen
        assert (asked.tool, asked.arguments, asked.allowed) == ("delete", A, ALL)
        assert "I clean up." in asked.reason
        assert (asked.by, asked.problem) == ("approve_tools", "")

    @cases(
        ("description", "text"),
        ("Deletes for good.", "Deletes for good.\nCall delete"),
        (lambda action: f"Size of {action.tool_input['path']}: 3 kB", "Size of a: 3 kB\nCall delete"),  # pyright: ignore
    )
    def test_person_reads_the_description(self, description: Any, text: str) -> None:
        piece = approve_tools({"delete": ALL}, description=description)
        (asked,) = members_of(pause(Scene(calls("delete a"), nodes=(piece,)).executor).effect)
        assert str(asked).startswith(text)

    def test_multiple_tools_mixed_responses(self) -> None:
        """LangChain's test_human_in_the_loop_middleware_multiple_tools_mixed_responses: each call has one result."""
        decisions = {"a": Review("approve"), "b": Review("reject", "No."), "c": Review("respond", "later")}
        decisions["d"] = Review("edit", arguments={"path": "e"})
        several = calls("delete a", "delete b", "read x", "delete c", "delete d")
        result = Scene(several, nodes=(gate(lambda asked: decisions[path_of(asked)]),)).executor.run("hi")
        assert steps_of(result.steps) == [
            ("deleted a", "ok"),
            (f"{REJECTED} No.", "rejected"),
            ("text of x", "ok"),
            ("later", "ok"),
            ("deleted e", "ok"),
        ]
        assert [step.action.call_id for step in result.steps] == ["c0", "c1", "c2", "c3", "c4"]
        assert result.spent.meters["tool_calls"] == 3

    def test_rejection_keeps_a_direct_sibling_from_ending_the_run(self) -> None:
        result = Scene(calls("show a", "delete b"), "all done", nodes=(gate(REJECT),)).executor.run("hi")
        assert result.output == "all done"
        assert [step.status for step in result.steps] == ["ok", "rejected"]
        # The option `when` selects the calls.
        scene = Scene(calls("delete a", "delete b"), nodes=(gate(REJECT, when=lambda one: one.tool_input == A),))
        assert [step.status for step in scene.executor.run("hi").steps] == ["rejected", "ok"]
        assert scene.files.called == ["delete b"]


FINAL = "Final Answer: done"
STRUCTURED = ('{"action": "delete", "action_input": {"path": "aa"}}', '{"action": "final_answer", "answer": "done"}')


class TestEdits:
    def test_edit_with_modified_args(self) -> None:
        """LangChain's test_human_in_the_loop_middleware_edit_with_modified_args, and their issue 33787.

        There the model repeated its call after an edit: its message still had the first arguments. Here the model
        reads what ran.
        """
        scene = Scene(calls("delete a", "read x"), nodes=(gate(EDIT),))
        result = scene.executor.run("hi")
        assert sorted(scene.files.called) == ["delete b", "read x"]
        assert [step.action.tool_input for step in result.steps] == [{"path": "b"}, {"path": "x"}]
        (message,) = [one for one in messages(scene.model.requests[-1]) if isinstance(one, AssistantMessage)]
        assert [json.loads(call.arguments) for call in message.tool_calls] == [{"path": "b"}, {"path": "x"}]

    @cases(
        ("make", "reply", "last", "edited"),
        (gx.create_react_agent, 'Action: delete\nAction Input: {"path": "a"}', FINAL, 'Input: {"path": "b"}'),
        (gx.create_react_agent, "Action: delete\nAction Input: aa", FINAL, 'Input: {"path": "b"}'),
        (gx.create_structured_agent, STRUCTURED[0], STRUCTURED[1], '_input": {"path": "b"}}'),
    )
    def test_text_of_the_model_is_edited(self, make: Any, reply: str, last: str, edited: str) -> None:
        files, model = Files(), models.ScriptedModel([reply, last])
        executor = gx.AgentExecutor(agent=make(model, files.tools), tools=files.tools, nodes=[gate(EDIT)])
        (step,) = executor.run("hi").steps
        assert step.action.log.endswith(edited)
        request = model.requests[-1]
        texts = [one.content for one in request.messages] if isinstance(request, ChatRequest) else [request.prompt]
        assert any(edited in text for text in texts)
        assert not any("aa" in text for text in texts)

    def test_call_that_stands_twice_is_edited_in_both_places(self) -> None:
        files, model = Files(), models.ScriptedModel([calls("delete a", "read x", "delete a"), "done"])
        agent = gx.create_tool_calling_agent(model, files.tools, rules=("no_repeats",))
        executor = gx.AgentExecutor(agent=agent, tools=files.tools, nodes=[gate(EDIT)])
        result = executor.run("hi")
        assert sorted(files.called) == ["delete b", "read x"]
        assert [step.action.tool_input for step in result.steps] == [{"path": "b"}, {"path": "x"}, {"path": "b"}]
        assert [step.observation for step in result.steps] == ["deleted b", "text of x", "deleted b"]
        sent = [one for message in messages(model.requests[-1]) for one in getattr(message, "tool_calls", ())]
        assert [json.loads(one.arguments)["path"] for one in sent] == ["b", "x", "b"]

    def test_input_that_is_not_in_the_text_is_noted(self) -> None:
        action = gx.AgentAction("delete", {"path": "a"}, "I delete it")
        acted = replace_arguments(Acted(Run({}), (action,)), 0, {"path": "b"}, "delete")
        assert acted.actions[0].log == 'I delete it\n(A person changed the input to {"path": "b"}.)'

    def test_arguments_that_do_not_fit_are_asked_about_again(self) -> None:
        seen: list[str] = []

        def review(call: ReviewCall) -> Review:
            seen.append(call.problem)
            return Review("edit", arguments={"path": "b"} if call.problem else {"way": "b"})

        scene = Scene(calls("delete a"), nodes=(gate(review),))
        assert steps_of(scene.executor.run("hi").steps) == [("deleted b", "ok")]
        assert seen[0] == ""
        assert "path: " in seen[1]

    def test_repeated_invalid_reviews_reject_the_call(self) -> None:
        asked: list[ReviewCall] = []
        review = noting(asked, "edit", arguments={"path": "b"})
        scene = Scene(calls("delete a"), nodes=(approve_tools({"delete": ["approve", "reject"]}, reviewer=review),))
        (step,) = scene.executor.run("hi").steps
        assert (len(asked), step.status) == (MOST_REVIEWS, "rejected")
        assert "edit is not allowed for delete; choose approve or reject" in step.observation
        assert scene.files.called == []

    def test_reply_of_another_class_is_an_error(self) -> None:
        scene = Scene(calls("delete a"), nodes=(gate(lambda _: True),))
        with pytest.raises(gx.InputError, match=r"answered with True; answer with a Review"):
            scene.executor.run("hi")
        assert scene.files.called == []

    @cases(
        ("gates", "reviews", "status", "done", "problem"),
        # A tool that nobody gates is called at once.
        ({"delete": ALL}, [("edit", "read")], "ok", ["read b"], ""),
        # LangChain's issue 40166: there an edit to another tool skips the gate of that tool.
        ({"delete": ALL, "read": ["approve"]}, [("edit", "read"), ("approve", None)], "ok", ["read b"], ""),
        ({"delete": ALL, "read": ["reject"]}, [("edit", "read"), ("reject", None)], "rejected", [], ""),
        ({"delete": ALL}, [("edit", "raed"), ("approve", None)], "ok", ["delete a"], "Did you mean read"),
        (
            {"delete": ALL, "read": ["edit"]},
            [("edit", "read"), ("edit", "delete"), ("edit", "read")],
            "rejected",
            [],
            "",
        ),
    )
    def test_edit_may_call_another_tool(
        self, gates: Any, reviews: list[Any], status: str, done: list[str], problem: str
    ) -> None:
        asked: list[ReviewCall] = []

        def review(call: ReviewCall) -> Review:
            asked.append(call)
            decision, tool = reviews[len(asked) - 1]
            return Review(decision, arguments={"path": "b"}, tool=tool) if tool else Review(decision)

        scene = Scene(calls("delete a"), nodes=(approve_tools(gates, reviewer=review),))
        (step,) = scene.executor.run("hi").steps
        assert (step.status, scene.files.called, len(asked)) == (status, done, len(reviews))
        assert problem in asked[-1].problem
        message = next(one for one in messages(scene.model.requests[-1]) if isinstance(one, AssistantMessage))
        assert [one.name for one in message.tool_calls] == [step.action.tool]

    def test_edit_does_not_skip_the_gate_of_another_piece(self) -> None:
        problems: list[str] = []

        def review(call: ReviewCall) -> Review:
            problems.append(call.problem)
            return Review("reject") if call.problem else Review("edit", arguments={"path": "b"}, tool="read")

        for order in (1, -1):
            pieces = (gate(), approve_tools({"read": ["approve"]}, name="reading"))[::order]
            scene = Scene(calls("delete a"), nodes=pieces, handlers={ReviewCall: review})
            assert scene.executor.run("hi").steps[0].status == "rejected"
            assert "reading decides about calls of read" in problems[-1]
            assert scene.files.called == []

    def test_text_of_an_edit_to_another_tool(self) -> None:
        files, model = Files(), models.ScriptedModel(['Action: delete\nAction Input: {"path": "a"}', FINAL])
        review = noting([], "edit", arguments={"path": "b"}, tool="read")
        agent = gx.create_react_agent(model, files.tools)
        (step,) = gx.AgentExecutor(agent=agent, tools=files.tools, nodes=[gate(review)]).run("hi").steps
        assert step.action.log.endswith('\n(A person changed the call to read with {"path": "b"}.)')
        assert files.called == ["read b"]


class TestPauses:
    def test_person_answers_a_stored_run(self) -> None:
        scene = Scene(calls("delete a", "read x", "delete b"), nodes=(gate(),))
        stored = pause(scene.executor).snapshot.to_json()
        assert scene.files.called == []

        tomorrow = Scene(nodes=(gate(),))
        half = resume(tomorrow.executor, stored).reply_member(1, Review("edit", arguments={"path": "c"})).to_json()
        whole = resume(tomorrow.executor, half).reply_member(0, Review("reject")).to_json()
        result = tomorrow.executor.run(gx.Snapshot.from_json(whole, tomorrow.executor.graph))
        assert [step.status for step in result.steps] == ["rejected", "ok", "ok"]
        assert sorted(tomorrow.files.called) == ["delete c", "read x"]

    def test_invalid_answer_asks_again(self) -> None:
        scene = Scene(calls("delete a"), nodes=(approve_tools({"delete": ["approve"]}),))
        pending = pause(scene.executor)
        with pytest.raises(gx.InputError, match="reply with a Review"):
            pending.reply(("approve",))
        again = resume(scene.executor, pending.reply((Review("reject"),)).to_json())
        (asked,) = members_of(again.effect)
        assert isinstance(asked, ReviewCall)
        assert asked.problem == "reject is not allowed for delete; choose approve"
        assert scene.executor.run(again.reply((Review("approve"),))).steps[0].observation == "deleted a"

    def test_deadline_runs_nothing(self) -> None:
        scene = Scene(calls("delete a"), nodes=(gate(),), max_execution_time=60)
        result = scene.executor.run(pause(scene.executor).cut(at=61))
        assert (result.reason, scene.files.called) == ("seconds", [])


MAKERS: list[Callable[[gx.AgentExecutor], Piece]] = [
    lambda inner: shelf.sub_agent(inner, "research", "Research."),
    lambda inner: shelf.handoffs({"other": inner}),
    shelf.map_agents,
]


class TestOrder:
    def test_rejected_tool_is_not_reached_by_a_jump(self) -> None:
        """LangChain's issue 40491: the jump of another middleware runs a tool that a person has just rejected."""

        @gx.node(when_spent=keep, meters=[gx.Meter("retries", 3)])
        def jump_to_tools(observed: Observed) -> Acted:
            """Call all tools of the reply again."""
            return Acted(observed.run, observed.actions)

        for order in (1, -1):
            asked: list[ReviewCall] = []
            scene = Scene(calls("delete a"), nodes=(gate(noting(asked, "reject")), jump_to_tools)[::order])
            scene.executor.run("hi")
            assert (scene.files.called, len(asked)) == ([], 4)

    def test_reviewer_sees_what_another_piece_changed(self) -> None:
        @gx.node
        def restore(acted: Acted) -> Acted:
            actions = [type(one)(one.tool, {"path": "secret"}, call_id=one.call_id) for one in acted.actions]
            return Acted(acted.run, tuple(actions), acted.answers)

        show = gate(lambda call: Review("respond", str(call.arguments)))
        for nodes in ((show, restore), (restore, show)):
            result = Scene(calls("delete a"), nodes=nodes).executor.run("hi")
            assert result.steps[0].observation == "{'path': 'secret'}"

    def test_nested_agent_tool_does_not_inherit_parent_approvals(self) -> None:
        """openai-agents' test of this name: the approval of an agent says nothing of the tools that it calls."""
        asked: list[ReviewCall] = []
        inner = Scene(calls("delete a"), nodes=(gate(noting(asked, "reject")),))
        helper = inner.executor.as_tool("helper", "Cleans up.")
        model = models.ScriptedModel([call("helper", input="clean"), "done"])
        caller_of(model, helper, nodes=[approve_tools({"helper": ["approve"]}, reviewer=noting(asked))]).run("hi")
        assert [call.tool for call in asked] == ["helper", "delete"]
        assert inner.files.called == []

    @cases("make_piece", *MAKERS)
    def test_agents_of_pieces_need_their_own_approval(self, make_piece: Callable[[gx.AgentExecutor], Piece]) -> None:
        """A tool that is gated in an executor could otherwise be called by a member of its team."""
        look_up_gate = approve_tools({"look_up": ["approve"]})
        bare, gated = make_executor(), make_executor([look_up_gate])
        with pytest.raises(gx.GraphError, match="calls look_up past approve_tools; plug a piece like approve_tools in"):
            make_executor([look_up_gate, make_piece(bare)])
        deep = shelf.sub_agent(make_executor([make_piece(bare)]).with_tools([]), "deep", "Research.")
        with pytest.raises(gx.GraphError, match="deep has an agent that calls look_up past approve_tools"):
            make_executor([look_up_gate, deep])
        make_executor([look_up_gate, make_piece(gated)])

    def test_two_gates_both_ask_one_handler(self) -> None:
        asked: list[ReviewCall] = []
        review = noting(asked)
        scene = Scene(calls("delete a"), nodes=(gate(review), gate(review, name="four_eyes")))
        assert scene.executor.run("hi").steps[0].observation == "deleted a"
        assert [one.by for one in asked] == ["four_eyes", "approve_tools"]
        with pytest.raises(gx.InputError, match="approve_tools and second have different handlers of ReviewCall; pass"):
            Scene(nodes=(gate(APPROVE), gate(REJECT, name="second")))
        by: dict[str, Review] = {"approve_tools": Review("approve"), "second": Review("reject")}
        handlers: dict[Any, Decide] = {ReviewCall: lambda call: by[call.by]}
        scene = Scene(calls("delete a"), nodes=(gate(), gate(name="second")), handlers=handlers)
        assert scene.executor.run("hi").steps[0].status == "rejected"


@gx.node(when_spent=limit_reached)
def carry_out(acted: Acted) -> gx.Asks[effects.CallTool, Acted]:
    """Call the tools by itself, as a sub-agent does."""
    places = acted.open
    results = yield from gx.ask_all(
        [effects.CallTool(acted.actions[place].tool, acted.actions[place].tool_input, acted.run) for place in places]
    )
    for place, result in zip(places, results, strict=True):
        acted = acted.answer(place, result)
    return acted


@gx.node
def answer_reads(acted: Acted) -> Acted:
    for place in acted.open:
        if acted.actions[place].tool == "read":
            acted = acted.answer(place, effects.ToolResult("known"))
    return acted


def keep(observed: Observed, limit: object) -> Observed:
    return observed


@gx.node(when_spent=keep, meters=[gx.Meter("again", 1)])
def repeat(observed: Observed) -> Acted:
    return Acted(observed.run, observed.actions)


@gx.node(when_spent=limit_reached, meters=[gx.Meter("started", 1)])
def start_with_a_call(ready: Ready) -> Ready:
    return ready


OTHERS: tuple[Plugged, ...] = (
    pure("change", Acted, Acted, lambda acted: acted),
    answer_reads,
    Piece("carry_out", (carry_out,)),
    repeat,
    Piece("start", (start_with_a_call,), once=True),
)


def check_dominance(nodes: tuple[Plugged, ...]) -> None:
    """Check on the machine and in a run that no gated tool is called without an approval."""
    approved: list[str] = []

    def review(call: ReviewCall) -> Review:
        decided = Review("approve" if len(approved) % 2 else "reject")
        approved.append(path_of(call) if decided.decision == "approve" else "")
        return decided

    scene = Scene(
        calls("delete a", "read b", "delete c"),
        calls("delete d"),
        nodes=tuple(gate(review) if one is GATE else one for one in nodes),
    )
    graph = scene.executor.graph
    around = [(edge.source, edge.target) for edge in graph.edges if edge.target != "approve_tools"]
    calling = {one.name for one in graph if effects.CallTool in one.effects}
    assert not calling & {*reachable(graph.start, around)}
    for event in scene.executor.stream("hi"):
        if isinstance(event, Asked) and isinstance(event.effect, effects.CallTool) and event.effect.name == "delete":
            assert event.effect.tool_input in [{"path": path} for path in approved]
    assert {one for one in scene.files.called if one.startswith("delete")} <= {f"delete {one}" for one in approved}


GATE = gate()


@pytest.mark.medium
@cases("others", *itertools.combinations(OTHERS, 2))
def test_approval_dominates_every_call_of_a_tool(others: tuple[Plugged, ...]) -> None:
    for order in itertools.permutations((GATE, *others)):
        check_dominance(order)


@cases(
    ("make", "arguments", "fact"),
    (approve_tools, ({"delete": ["aprove"]},), r"\['aprove'\] for delete; give some of approve, edit, reject, resp"),
    (approve_tools, ({"delete": "approve"},), "decisions='approve' for delete; give some of"),
    (approve_tools, ({"delete": []},), r"decisions=\[\] for delete"),
    (approve_tools, (["delete"],), r"approve_tools has tools=\['delete'\]; give decisions by the tool's name"),
    (approve_tools, ({approve_tools: ["approve"]},), "approve_tools has tools=.*; give decisions by the tool's name"),
    (approve_tools, ({"delet": ["approve"]},), r"approve_tools names the tool delet, .* did you mean delete\?"),
    (Review, ("aprove",), "decision='aprove'; give one of approve, edit, reject, respond"),
    (Review, ("edit",), "'edit' has arguments=None; write"),
    (Review, ("approve", "", {"path": "b"}), "'approve' has arguments="),
    (Review, ("reject", None), "text=None; give a string"),
    (Review, ("approve", "", None, "read"), "'approve' has tool='read'; only an edit"),
    (Review, ("edit", "", {"path": "b"}, 3), "tool=3; give a string"),
)
def test_invalid_gates_and_reviews_are_refused(make: Callable[..., Any], arguments: Any, fact: str) -> None:
    with pytest.raises(gx.InputError, match=fact):
        Scene(nodes=(make(*arguments),))


async def never_awaited(_: object) -> Any:
    """A function that a gate cannot wait for."""


@cases(
    ("options", "fact"),
    ({"when": never_awaited}, r"when=<function never_awaited.*; give a function \(def\)"),
    ({"description": never_awaited}, r"description=<.*; give a string, or a function \(def\)"),
    ({"description": lambda _: 5}, "has the description=5; give a string"),  # type: ignore[misc]
)
def test_functions_of_a_gate_are_plain(options: dict[str, Any], fact: str) -> None:
    with pytest.raises(gx.InputError, match=fact):
        Scene(call("delete", path="a"), nodes=(approve_tools({"delete": ["approve"]}, **options),)).executor.run("hi")
