"""Mistakes of newcomers with pieces: each is refused by name, with the remedy."""

from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentFinish, GraphError, create_agent, node
from graphexec.errors import InputError
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece, approve_tools, critic, guard_input, handoffs
from tests.parameters import cases


def agent(nodes: Any) -> Any:
    return create_agent(ScriptedModel(["hi"]), kind="tool_calling", nodes=nodes)


@node
def sign(finish: AgentFinish) -> AgentFinish:
    return finish


NO_LIST = "nodes is .*; give a list of pieces: nodes="
# Any: they are invalid on purpose.
LIST: Any = [agent([])]
KEYS: Any = {critic: ["approve"]}
TYPO = guard_input(lambda _: None, inputs=["inptu"])


@cases(
    ("mistake", "error", "text"),
    [
        (lambda: agent(critic()), InputError, NO_LIST),
        (lambda: agent(critic), InputError, NO_LIST),
        (lambda: agent("critic"), InputError, NO_LIST),
        (lambda: agent(LIST), InputError, "is not a piece; pass a piece such as"),
        (lambda: agent([Piece("sign", (sign,), before="sign")]), GraphError, "sign has before='sign', which is no pie"),
        (lambda: handoffs(LIST), InputError, "handoffs has members=.*; give a dict of executors by name"),
        (lambda: agent([TYPO]).run("hi"), InputError, "guard_input: the run has no input inptu to check; it has input"),
        (lambda: approve_tools(KEYS), InputError, "approve_tools has the key .*; give the tool's name"),
    ],
)
def test_mistake_is_refused_by_name(mistake: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mistake()
