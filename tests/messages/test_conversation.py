"""Messages of a conversation."""

from graphexec.messages import AssistantMessage, Reasoning, ToolCall


def test_message_with_some_of_its_calls_keeps_the_places_of_its_reasoning() -> None:
    first, second = ToolCall("1", "look", "{}"), ToolCall("2", "read", "{}")
    thoughts = [Reasoning("Hm.", after_calls=after) for after in (0, 1, 2)]
    kept = AssistantMessage("", (first, second), tuple(thoughts)).with_calls([second])
    assert [*kept.parts] == [thoughts[0], Reasoning("Hm."), second, thoughts[1]]
