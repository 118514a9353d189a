"""Messages of earlier conversations: each result is directly behind its call, whatever a history has lost."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphexec.agents.conversation import pair_calls
from graphexec.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.agents.test_run_histories import pairs
from tests.executor.actors import caller_of, echo
from tests.parameters import cases

IDS = st.sampled_from("abc")
CALLS = st.lists(st.builds(ToolCall, IDS, st.just("echo"), st.just("{}")), max_size=3).map(tuple)
MESSAGES: st.SearchStrategy[Message] = (
    st.builds(UserMessage, st.sampled_from(["hi", "go on"]))
    | st.builds(AssistantMessage, st.sampled_from(["", "I look."]), CALLS)
    | st.builds(ToolMessage, IDS, st.sampled_from(["echo 1", "echo 2", "echo 3"]))
)


@given(st.lists(MESSAGES, max_size=12))
def test_any_history_has_no_orphans(messages: list[Message]) -> None:
    paired = pair_calls(messages)
    assert len(pairs(paired)) == sum(isinstance(one, ToolMessage) for one in paired)
    assert pair_calls(paired) == paired
    # No result is lost.
    results = sorted(one.content for one in messages if isinstance(one, ToolMessage))
    kept = [one.content for one in paired if isinstance(one, ToolMessage | UserMessage)]
    asked = [one.content for one in messages if isinstance(one, UserMessage)]
    assert sorted(kept) == sorted([*results, *asked])


LOOK = AssistantMessage("I look.", (ToolCall("a", "echo", "{}"), ToolCall("b", "echo", "{}")))
SAME = AssistantMessage("", (ToolCall("a", "echo", "{}"), ToolCall("a", "fail", "{}")))
OWN = AssistantMessage("", (SAME.tool_calls[0], ToolCall("call_1", "fail", "{}")))
A, B = ToolMessage("a", "of a"), ToolMessage("b", "of b")


@cases(
    ("history", "sent"),
    ([LOOK, A, B], [LOOK, A, B]),
    ([LOOK, B, A], [LOOK, A, B]),
    ([LOOK, A, UserMessage("well?"), B], [LOOK, A, B, UserMessage("well?")]),
    ([LOOK, A], [LOOK.with_calls(LOOK.tool_calls[:1]), A]),
    ([A, LOOK, A, B], [UserMessage("of a"), LOOK, A, B]),
    ([AssistantMessage("", LOOK.tool_calls)], []),
    # An id that two messages have: it is that of the last one.
    ([LOOK, A, B, LOOK, A, B], [LOOK, A, B, LOOK, A, B]),
    ([LOOK, LOOK, A, B, A], [LOOK.with_calls(()), LOOK, A, B, UserMessage("of a")]),
    # An id that two calls of a message have: results that are fewer may be of either.
    ([SAME, A, ToolMessage("a", "2")], [OWN, A, ToolMessage("call_1", "2")]),
    ([SAME, A], [UserMessage("of a")]),
)
def test_history_is_repaired_before_it_is_sent(history: list[Message], sent: list[Message]) -> None:
    model = ScriptedModel(["done"])
    caller_of(model, echo).run({"input": "?", "chat_history": history})
    request: Any = model.requests[0]
    assert [*request.messages][1:-1] == sent
