"""Mistakes of newcomers with pieces: each is refused by name, with the remedy."""

from typing import Any

import pytest

from graphexec import AgentFinish, GraphError, create_agent, node
from graphexec.errors import InputError
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece, approve_tools, critic, guard_input, handoffs
from tests.parameters import cases


def agent(nodes: Any) -> Any:
    return create_agent(ScriptedModel(["hi"]), kind="tool_calling", nodes=nodes)


@cases("nodes", [critic(), critic, "critic"])
def test_nodes_are_a_list(nodes: Any) -> None:
    with pytest.raises(InputError, match=r"nodes is .*; give a list of pieces: nodes="):
        agent(nodes)


def test_executor_is_not_a_piece() -> None:
    with pytest.raises(InputError, match="is not a piece; pass a piece such as"):
        agent([agent([])])


def test_piece_cannot_precede_itself() -> None:
    @node
    def sign(finish: AgentFinish) -> AgentFinish:
        return finish

    with pytest.raises(GraphError, match="sign has before='sign', which is no piece"):
        agent([Piece("sign", (sign,), before="sign")])


def test_members_are_named() -> None:
    members: Any = [agent([])]
    with pytest.raises(InputError, match=r"handoffs has members=.*; give a dict of executors by name"):
        handoffs(members)


def test_guard_refuses_missing_inputs() -> None:
    with pytest.raises(InputError, match="guard_input: the run has no input inptu to check; it has input"):
        agent([guard_input(lambda _: None, inputs=["inptu"])]).run("hi")


def test_approval_names_tools() -> None:
    gates: Any = {critic: ["approve"]}
    with pytest.raises(InputError, match=r"approve_tools has the key .*; give the tool's name"):
        approve_tools(gates)
