"""Messages of LangChain are converted, and its actions are stored as what they are."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest

from graphexec import actions, errors
from graphexec.integrations.langchain import convert_messages
from graphexec.integrations.langchain.originals import dump_original, restore_original
from graphexec.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.executor.actors import caller_of, echo, messages
from tests.integrations.langchain import shapes as lc
from tests.parameters import cases

CALL: dict[str, Any] = {"name": "echo", "args": {"text": "a"}, "id": "c1"}
THEIRS: list[Any] = [
    SimpleNamespace(type="system", content="Be brief."),
    SimpleNamespace(type="human", content=["Say ", {"type": "text", "text": "a."}]),
    lc.AIMessage(content="I look.", tool_calls=[CALL]),
    lc.ToolMessage(content="a", tool_call_id="c1"),
    SimpleNamespace(type="AIMessageChunk", content=[{"type": "reasoning"}, {"type": "text", "text": "a"}]),
]
OURS = (
    SystemMessage("Be brief."),
    UserMessage("Say a."),
    AssistantMessage("I look.", (ToolCall("c1", "echo", '{"text": "a"}'),)),
    ToolMessage("c1", "a"),
    AssistantMessage("a"),
)


def test_messages_are_converted() -> None:
    assert convert_messages(THEIRS) == convert_messages(OURS) == OURS


@cases(
    ("message", "facts"),
    (SimpleNamespace(type="function", content="a"), "is not such a message of LangChain; give system, human, AI and t"),
    (3, "3 is not such a message of LangChain"),
    (SimpleNamespace(type="human", content=[{"type": "image_url"}]), "a human message has a block of type image_url;"),
)
def test_other_messages_are_refused(message: Any, facts: str) -> None:
    with pytest.raises(errors.InputError, match=facts):
        convert_messages([message])


def test_run_takes_converted_messages_alone() -> None:
    model = ScriptedModel(["done"])
    executor = caller_of(model, echo)
    asked = {"input": "Again?", "chat_history": THEIRS}
    with pytest.raises(
        errors.InputError, match=r"is a message of another library; write convert_messages\(messages\), "
    ):
        executor.run(asked)
    executor.run({**asked, "chat_history": convert_messages(THEIRS)})
    (request,) = model.requests
    assert tuple(messages(request)[-2:]) == (AssistantMessage("a"), UserMessage("Again?"))


class Told(pydantic.BaseModel, extra="allow"):
    """A message of another library, which has fields beyond those of its class."""

    content: str
    calls: list[dict[str, Any]] = []


@dataclasses.dataclass
class Acted:
    """An action of another library."""

    tool: str
    tool_input: Any
    message: Told
    log: str = dataclasses.field(default="", init=False)


ACTED = Acted("look", {"at": (1, None)}, Told.model_validate({"content": "hm", "calls": [{"a": 1}], "more": [2.5]}))


def test_object_of_another_library_is_restored() -> None:
    stored = json.loads(json.dumps(dump_original([ACTED, actions.AgentAction("look", "x", "log")])))
    acted, action = restore_original(stored)
    assert (acted.tool, acted.tool_input) == ("look", {"at": [1, None]})
    assert (acted.message, acted.message.model_extra) == (ACTED.message, {"more": [2.5]})
    assert action == actions.AgentAction("look", "x", "log")
    # Our classes have the name of the package that exports them.
    assert (stored[0]["class"], stored[1]["class"]) == (f"{__name__}:Acted", "graphexec:AgentAction")


@cases("module", "graphexec.messages", "graphexec.messages.conversation")
def test_stored_message_is_restored_by_each_name(module: str) -> None:
    stored = dump_original(AssistantMessage("hi"))
    assert stored["class"] == "graphexec.messages:AssistantMessage"
    restored = restore_original({**stored, "class": f"{module}:AssistantMessage"})
    assert (type(restored), restored.content) == (AssistantMessage, "hi")


@cases(
    ("name", "fields", "facts"),
    ("nowhere:Action", {}, ["nowhere.Action", "import it"]),
    (f"{__name__}:Nothing", {}, [f"{__name__}.Nothing"]),
    (f"{__name__}:CALL", {}, [f"{__name__}.CALL"]),
    # Neither an action nor a message.
    ("fractions:Fraction", {}, ["fractions.Fraction"]),
    ("subprocess:Popen", {}, ["subprocess.Popen, which this program has not loaded; import it"]),
    ("os:system", {}, ["os.system"]),
    ("graphexec.messages:Usage", {"prompt_tokens": 1}, ["graphexec.messages.Usage"]),
    (f"{__name__}:Told", {"content": 3}, ["the stored fields do not make a Told"]),
    (f"{__name__}:Acted", {"tool": "look"}, ["an Acted", "tool_input"]),
)
def test_other_classes_are_not_made(name: str, fields: dict[str, Any], facts: list[str]) -> None:
    with pytest.raises(errors.SnapshotError) as caught:
        restore_original({"class": name, "fields": fields})
    assert [fact for fact in facts if fact not in str(caught.value)] == []
