"""No piece leads past another one's approval."""

from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, GraphError, InputError
from graphexec.actions import Run
from graphexec.effects import ToolResult
from graphexec.executor import Acted
from graphexec.nodes import Piece, approve_tools, handoffs, map_agents, sub_agent, todo_list
from tests.nodes.shelf import calls, make_executor, make_inner
from tests.parameters import cases

MAKERS: list[Callable[[AgentExecutor], Piece]] = [
    lambda inner: sub_agent(inner, "research", "Research."),
    lambda inner: handoffs({"other": inner}),
    map_agents,
]


@cases("make_piece", MAKERS)
def test_agents_of_pieces_need_their_own_approval(make_piece: Callable[[AgentExecutor], Piece]) -> None:
    """A tool that is gated in an executor could otherwise be called by a member of its team."""
    gate = approve_tools({"look_up": ["approve"]})
    bare, gated = make_executor(), make_executor([gate])
    with pytest.raises(GraphError, match=r"calls look_up past approve_tools; plug a piece like approve_tools into"):
        make_executor([gate, make_piece(bare)])
    deep = sub_agent(make_executor([make_piece(bare)]).with_tools([]), "deep", "Research.")
    with pytest.raises(GraphError, match="deep has an agent that calls look_up past approve_tools"):
        make_executor([gate, deep])
    make_executor([gate, make_piece(gated)])


@cases(
    ("answers", "text"),
    [
        ((None, ToolResult("no", "rejected")), "2 answers for 1 actions; keep the actions"),
        ((0,), "the answer 0 for action 0"),
        ((-1,), "the answer -1 for action 0"),
        (("no",), "the answer 'no' for action 0"),
    ],
)
def test_answers_belong_to_actions(answers: Any, text: str) -> None:
    """Without its rejected neighbour, an action would take over the answer, and a rejected one lose it."""
    with pytest.raises(InputError, match=text):
        Acted(Run({}), (AgentAction("look_up", "x"),), answers)


@cases(
    ("piece", "called", "statuses"),
    [
        (lambda: sub_agent(make_inner(), "research", "Research."), ("Research", '{"task": "a"}'), ["ok", "ok"]),
        (lambda: handoffs({"other": make_inner()}), ("Transfer_To_Other", "{}"), ["ok", "rejected"]),
        (todo_list, ("Write_Todos", '{"todos": []}'), ["ok", "error"]),
    ],
)
def test_tools_of_pieces_are_looked_up_without_case(
    piece: Callable[[], Piece], called: tuple[str, str], statuses: list[str]
) -> None:
    executor = make_executor([piece()], [calls(called, called), "done"], tool_lookup="case_insensitive")
    assert [step.status for step in executor.run("go").steps] == statuses
