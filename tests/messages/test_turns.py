"""A conversation is the sequence of its messages, however much of it was derived of another before."""

import copy
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.actions import NO_STEPS, AgentAction, AgentStep, Steps
from graphexec.messages import AssistantMessage, Message, Reasoning, SystemMessage, ToolCall, UserMessage
from graphexec.messages.turns import Conversation, MessageTurn, derive_texts

HEAD: tuple[Message, ...] = (SystemMessage("Be brief."), UserMessage("Go on."))


def pairs(steps: Sequence[AgentStep], begin: int) -> Iterator[MessageTurn]:
    """Make a turn of each two steps; the last is not closed if it has one."""
    for start in range(begin, len(steps), 2):
        several = steps[start : start + 2]
        seen = [UserMessage(str(one.observation)) for one in several]
        messages: list[Message] = [AssistantMessage(several[0].action.log), *seen]
        yield MessageTurn(start + len(several), messages, closed=len(several) == 2)


def made(steps: Sequence[AgentStep]) -> tuple[Message, ...]:
    return (*HEAD, *(message for turn in pairs(steps, 0) for message in turn.messages))


def contents(messages: Sequence[Message]) -> str | None:
    return None if any(one.content == "?" for one in messages) else "|".join(one.content for one in messages)


def step(text: str, seen: str) -> AgentStep:
    return AgentStep(AgentAction("t", "x", text), seen)


STEPS = st.lists(st.builds(step, st.text("ab", max_size=1), st.sampled_from("cd?")))


@pytest.mark.medium
@given(batches=st.lists(STEPS, max_size=4), order=st.randoms(use_true_random=False), parts=st.integers(0, 4))
def test_conversation_is_the_sequence_of_its_messages(batches: list[list[AgentStep]], order: Any, parts: int) -> None:
    history = [NO_STEPS]
    for batch in batches:
        history.append(history[-1].extended(batch))
    several = [(steps, Conversation(HEAD, steps, pairs)) for steps in history]
    order.shuffle(several)
    for steps, one in several:
        plain = made(steps)
        assert (tuple(one), len(one), repr(one)) == (plain, len(plain), repr(list(plain)))
        assert (one[0], one[-1], one[1:parts]) == (plain[0], plain[-1], plain[1:parts])
        for other in (Conversation(HEAD, Steps(steps), pairs), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert one == other == copy.copy(other)
            assert tuple(other) == plain
        assert hash(one) == hash(Conversation(HEAD, NO_STEPS, pairs))
        assert one != list(one)
        # All requests of a run share the messages of the turns that go on no more.
        longest = tuple(Conversation(HEAD, history[-1], pairs))
        assert all(message is longest[place] for place, message in enumerate(one) if place < len(one) - 2)
        assert tuple(one.with_head(lambda head: head[:1])) == (HEAD[0], *plain[2:])
        # Derived again, in an order in which a longer one may have come before.
        for _ in range(2):
            texts = derive_texts(one, "contents", contents, "|")
            whole = contents(plain)
            assert (None if texts is None else "|".join(texts)) == whole


def test_texts_of_plain_messages_are_one_part() -> None:
    assert derive_texts(HEAD, "contents", contents, "|") == ["Be brief.|Go on."]
    assert derive_texts([UserMessage("?")], "contents", contents, "|") is None


def test_message_with_some_of_its_calls_keeps_the_places_of_its_reasoning() -> None:
    first, second = ToolCall("1", "look", "{}"), ToolCall("2", "read", "{}")
    thoughts = [Reasoning("Hm.", after_calls=after) for after in (0, 1, 2)]
    kept = AssistantMessage("", (first, second), tuple(thoughts)).with_calls([second])
    assert [*kept.parts] == [thoughts[0], Reasoning("Hm."), second, thoughts[1]]
