"""Images in the inputs of a run and in the results of tools, for every agent."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import functools
import json
import math
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import agents
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, steps_of
from graphexec.agents.conversation import parse_messages
from graphexec.agents.images import read_images
from graphexec.agents.scratchpad import TextProtocol
from graphexec.errors import ModelError
from graphexec.kernel.serialization import load_as, to_json_data
from graphexec.messages import ChatRequest, Image, ToolCall, ToolMessage, UserMessage, images_of
from graphexec.messages.images import dump_observation, restore_images
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import stop_repeats
from graphexec.tools import AnyTool
from graphexec.tools.formatting import format_observation, split_observation
from tests.models.pictures import ADDRESS, CAT, DOG, GIF, PNG
from tests.parameters import cases


@gx.tool
def look(text: str) -> list[Any]:
    """Look at the dog."""
    return [f"The {text}:", DOG, "and the address:", ADDRESS]


LOOKED = "The a:\n[image 1: image/gif, 42 bytes]\nand the address:\n[image 2: https://example.com/cat.png]"
LABEL = "Action: look\nAction Input: a"
JSON_ACTION = '{"action": "look", "action_input": "a"}'
FENCED = f"Action:\n```\n{JSON_ACTION}\n```"
CALL = ToolCall("c1", "look", '{"text": "a"}')
Make = Callable[[ScriptedModel, Sequence[AnyTool]], gx.Agent]
# Each agent, with a reply that calls the tool, and one that is the answer.
AGENTS: dict[str, tuple[Make, ScriptedReply, str]] = {
    "ReAct": (gx.create_react_agent, LABEL, "Final Answer: done"),
    "MRKL": (lambda model, tools: agents.create_mrkl_agent(model, tools, protocol="chat"), LABEL, "Final Answer: done"),
    "conversational": (
        lambda model, tools: agents.create_conversational_agent(model, tools, protocol="chat"),
        LABEL,
        "AI: done",
    ),
    "XML": (agents.create_xml_agent, "<tool>look</tool><tool_input>a", "<final_answer>done</final_answer>"),
    "chat": (agents.create_chat_agent, FENCED, "Final Answer: done"),
    "structured chat": (agents.create_structured_chat_agent, FENCED, FENCED.replace("look", "Final Answer")),
    "JSON chat": (agents.create_json_chat_agent, FENCED, FENCED.replace("look", "Final Answer")),
    "structured": (
        gx.create_structured_agent,
        '{"action": "look", "action_input": {"text": "a"}}',
        '{"action": "final_answer", "answer": "done"}',
    ),
    "tool calling": (gx.create_tool_calling_agent, CALL, "done"),
}
KINDS = cases("kind", AGENTS)


def executor(kind: str, *replies: ScriptedReply, **settings: Any) -> tuple[gx.AgentExecutor, ScriptedModel]:
    make, act, finish = AGENTS[kind]
    model = ScriptedModel(replies or [act, finish])
    return gx.AgentExecutor(agent=make(model, [look]), tools=[look], **settings), model


def inputs(kind: str, **more: Any) -> dict[str, Any]:
    return {"input": "Which?", **({"chat_history": ""} if kind == "conversational" else {}), **more}


def requested(model: ScriptedModel) -> list[ChatRequest]:
    assert all(isinstance(request, ChatRequest) for request in model.requests)
    return [request for request in model.requests if isinstance(request, ChatRequest)]


@KINDS
def test_images_are_sent_with_the_question(kind: str) -> None:
    made, model = executor(kind, AGENTS[kind][2])
    made.run(inputs(kind, images=[CAT, ADDRESS]))
    (message,) = [one for one in requested(model)[0].messages if isinstance(one, UserMessage) and one.images]
    assert "Which?" in message.content
    assert message.images == (CAT, ADDRESS)


@KINDS
def test_images_of_a_tool_are_sent(kind: str) -> None:
    made, model = executor(kind)
    made.run(inputs(kind))
    last = requested(model)[-1]
    (message,) = [one for one in last.messages if isinstance(one, (UserMessage, ToolMessage)) and one.images]
    assert LOOKED in message.content
    assert message.images == (DOG, ADDRESS)
    assert isinstance(message, ToolMessage) == (kind == "tool calling")


@KINDS
def test_no_prompt_contains_base64(kind: str) -> None:
    made, model = executor(kind)
    made.run(inputs(kind, images=CAT))
    for request in requested(model):
        assert "base64" not in "".join(message.content for message in request.messages)


@cases("kind", ["ReAct", "MRKL", "conversational", "XML", "chat", "structured chat"])
def test_one_message_numbers_all_its_images(kind: str) -> None:
    _, act, finish = AGENTS[kind]
    made, model = executor(kind, act, act, finish)
    made.run(inputs(kind, images=[CAT, CAT]))
    message = requested(model)[-1].messages[-1]
    assert isinstance(message, UserMessage)
    assert message.images == (CAT, CAT, DOG, ADDRESS, DOG, ADDRESS)
    labels = [image.label(number) for number, image in enumerate(message.images, 1)]
    places = [message.content.find(label) for label in labels[2:]]
    assert -1 not in places
    assert places == sorted(places)


FORMS: dict[str, tuple[Any, tuple[Image, ...]]] = {
    "an image": (CAT, (CAT,)),
    "bytes": (PNG, (CAT,)),
    "a byte array": (bytearray(GIF), (DOG,)),
    "an address": (ADDRESS.url, (ADDRESS,)),
    "a data URL": (CAT.url, (CAT,)),
    "stored JSON": ({"url": CAT.url, "kind": "graphexec.image"}, (CAT,)),
    "a list": ([CAT, GIF, ADDRESS.url], (CAT, DOG, ADDRESS)),
    "a tuple": ((PNG,), (CAT,)),
}


@cases("form", FORMS)
def test_images_have_several_forms(form: str) -> None:
    given, images = FORMS[form]
    made, model = executor("tool calling", "done")
    made.run({"input": "Which?", "images": given})
    assert tuple(images_of(model.requests[0])) == images


@cases("in_a_list", [False, True])
def test_file_is_read_once_at_the_start(tmp_path: Path, in_a_list: bool) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)

    @gx.tool
    def remove(text: str) -> str:
        """Remove the file."""
        path.unlink()
        return text

    model = ScriptedModel([ToolCall("c1", "remove", '{"text": ""}'), "done"])
    made = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [remove]), tools=[remove])
    made.run({"input": "Which?", "images": [path] if in_a_list else path})
    assert [tuple(images_of(request)) for request in model.requests] == [(CAT,), (CAT,)]


class WatchedPath:
    """A path that notes the thread in which it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.threads: list[threading.Thread] = []

    def __fspath__(self) -> str:
        self.threads.append(threading.current_thread())
        return str(self.path)


async def consume(items: Any) -> None:
    async for _ in items:
        pass


def in_call(way: str) -> Callable[[gx.AgentExecutor, Any], Any]:
    async def run(made: gx.AgentExecutor, given: Any) -> None:
        await getattr(made, way)(given)

    async def iterate(made: gx.AgentExecutor, given: Any) -> None:
        await consume(getattr(made, way)(given))

    return run if way in ("arun", "ainvoke") else iterate


@cases("way", ["arun", "ainvoke", "astream", "astream_chunks", "astream_answer", "iter"])
def test_async_run_reads_files_in_another_thread(way: str, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    path = WatchedPath(tmp_path / "cat.png")
    made, model = executor("tool calling", "done")
    asyncio.run(in_call(way)(made, {"input": "Which?", "images": [path]}))
    assert tuple(images_of(model.requests[0])) == (CAT,)
    assert len(path.threads) == 1
    assert path.threads[0] is not threading.current_thread()


def test_stream_reads_files_when_it_is_iterated(tmp_path: Path) -> None:
    made, _ = executor("tool calling", "done")
    for stream in (made.stream, made.stream_answer):
        events = stream({"input": "Which?", "images": tmp_path / "missing.png"})
        with pytest.raises(gx.InputError, match="cannot be read"):
            next(events)


def text_file(folder: Path) -> Path:
    path = folder / "a.txt"
    path.write_text("hello")
    return path


# Each wrong value, made in an empty folder, and what the error says.
WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (
        lambda _: None,
        "the input images: None is not an image; give an Image, bytes, a pathlib.Path or a URL",
    ),
    "a number": (lambda _: 3, "3 is not an image"),
    "an empty list": (lambda _: [], "the input images is empty; leave it out"),
    "a generator": (lambda _: iter([CAT]), "is not an image; give .* or a list of them"),
    "a dict": (lambda _: {"url": CAT.url}, "is not an image"),
    "a missing file": (lambda folder: folder / "no.png", "no.png' cannot be read .No such file or directory.; name"),
    "a directory": (lambda folder: folder, "cannot be read .Is a directory."),
    "a name with NUL": (lambda _: Path("a\0b"), "cannot be read .embedded null"),
    "a text file": (text_file, "a.txt' is not a PNG, JPEG, GIF or WebP image"),
    "a name": (lambda _: "photo.png", "for a file, pass a pathlib.Path"),
    "other bytes": (lambda _: b"hello", "the bytes are not a PNG"),
    "a data URL without base64": (lambda _: "data:image/png,abc", "not in base64"),
    "a wrong media type": (lambda _: "data:application/pdf;base64,aGk=", "the media type 'application/pdf'"),
    "two of three": (
        lambda _: [CAT, 3, "x"],
        r"images\[1\]: 3 is not an image.*; the input images\[2\]: the image URL 'x'",
    ),
}


@cases("what", WRONG)
def test_wrong_images_are_refused_before_the_first_call(what: str, tmp_path: Path) -> None:
    make, says = WRONG[what]
    made, model = executor("tool calling")
    with pytest.raises(gx.InputError, match=says):
        made.run({"input": "Which?", "images": make(tmp_path)})
    assert model.requests == []


WORDS = st.text(st.characters(exclude_characters=":"))
OTHER_BYTES = st.binary().map(lambda data: b"?" + data)


@given(st.one_of(st.none(), st.integers(), WORDS, OTHER_BYTES, st.lists(st.integers() | WORDS), st.sets(WORDS)))
def test_any_other_value_is_an_input_error(value: object) -> None:
    with pytest.raises(gx.InputError, match="images"):
        read_images(value)


COMPLETION: TextProtocol = "completion"


@cases(
    "make",
    [gx.create_react_agent, agents.create_mrkl_agent, agents.create_conversational_agent, agents.create_xml_agent],
)
def test_completion_refuses_images_at_the_start(make: Callable[..., gx.Agent]) -> None:
    model = ScriptedModel([])
    made = gx.AgentExecutor(agent=make(model, [look], protocol=COMPLETION), tools=[look])
    with pytest.raises(gx.InputError, match="completions, which hold text only"):
        made.run({"input": "Which?", "chat_history": "", "images": [CAT]})
    assert model.requests == []


def test_completion_refuses_the_image_of_a_tool() -> None:
    model = ScriptedModel([LABEL])
    made = gx.AgentExecutor(agent=gx.create_react_agent(model, [look], protocol=COMPLETION), tools=[look])
    with pytest.raises(
        gx.InputError, match=r"the tool look returned an image, .* protocol='chat', or return text"
    ) as raised:
        made.run("Which?")
    snapshot = gx.snapshot_of(raised.value)
    assert snapshot is not None
    assert len(steps_of(snapshot.value)) == 1


@cases("image", [CAT, [CAT], ("see", CAT)])
@KINDS
def test_template_refuses_an_image(kind: str, image: Any) -> None:
    made, model = executor(kind)
    with pytest.raises(gx.InputError, match=r"the input input is an image, .* and the image in the input images"):
        made.run(inputs(kind) | {"input": image})
    assert model.requests == []


@cases("image", [CAT, PNG, Path("cat.png")])
def test_image_under_another_name_is_not_dropped(image: Any) -> None:
    made, model = executor("tool calling")
    with pytest.raises(gx.InputError, match="the input image is not sent to the model; name it images"):
        made.run({"input": "Which?", "image": image})
    assert model.requests == []
    executor("tool calling", "done")[0].run({"input": "Which?", "image": "a text for my tool"})


def test_template_may_have_a_variable_of_that_name() -> None:
    for protocol in ("chat", "completion"):
        model = ScriptedModel(["Final Answer: done"])
        prompt = "{tools} {tool_names} {images}: {input} {agent_scratchpad}"
        agent = gx.create_react_agent(model, [look], prompt=prompt, protocol=protocol)
        made = gx.AgentExecutor(agent=agent, tools=[look])
        with pytest.raises(gx.InputError, match=r"written into a text; remove {images} from the template"):
            made.run({"input": "?", "images": [CAT]})
        made.run({"input": "?", "images": "three photos"})
        assert "three photos: ?" in str(model.requests[0])


def test_history_cannot_have_the_name_of_the_images() -> None:
    with pytest.raises(gx.InputError, match="history is images, the name of the input with images"):
        gx.create_tool_calling_agent(ScriptedModel([]), [look], history="images")


def test_function_receives_its_own_inputs() -> None:
    seen: list[Any] = []

    def decide(steps: Steps, inputs: dict[str, Any]) -> AgentFinish:
        seen.append(inputs["images"])
        return AgentFinish({"output": "done"})

    gx.AgentExecutor(agent=gx.callable_agent(decide), tools=[]).run({"input": "?", "images": "mine"})
    assert seen == ["mine"]


@KINDS
def test_run_with_images_resumes_from_json(kind: str) -> None:
    _, act, finish = AGENTS[kind]
    made, _ = executor(kind, act, ModelError("it is down"))
    with pytest.raises(ModelError) as raised:
        made.run(inputs(kind, images=[CAT]))
    failed = gx.snapshot_of(raised.value)
    assert failed is not None
    resumed, model = executor(kind, finish)
    snapshot = gx.Snapshot.from_json(failed.to_json(), resumed.graph)
    result = resumed.run(snapshot)
    assert result.ending.run.inputs["images"] == [CAT]
    assert result.steps[0].observation == look("a")
    assert tuple(images_of(model.requests[0])) == (CAT, DOG, ADDRESS)
    plain, other = executor(kind)
    plain.run(inputs(kind, images=[CAT]))
    assert [message.content for message in requested(model)[0].messages] == [
        message.content for message in requested(other)[-1].messages
    ]


RESUMED = """
import sys
from graphexec import AgentExecutor, Snapshot, create_tool_calling_agent
from graphexec.messages import images_of
from graphexec.models import ScriptedModel

model = ScriptedModel(["done"])
executor = AgentExecutor(agent=create_tool_calling_agent(model, []), tools=[])
executor.run(Snapshot.from_json(sys.stdin.read(), executor.graph))
print(*(image.url for image in images_of(model.requests[0])))
"""


def test_another_process_resumes_a_run_with_images() -> None:
    made, _ = executor("tool calling", CALL, ModelError("it is down"))
    with pytest.raises(ModelError) as raised:
        made.run({"input": "Which?", "images": CAT})
    failed = gx.snapshot_of(raised.value)
    assert failed is not None
    done = subprocess.run(
        [sys.executable, "-c", RESUMED], input=failed.to_json(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [CAT.url, DOG.url, ADDRESS.url]


def test_last_request_of_a_stopped_run_keeps_images() -> None:
    for kind, (_, act, finish) in AGENTS.items():
        made, model = executor(kind, act, finish, max_iterations=1, early_stopping_method="generate")
        made.run(inputs(kind, images=[CAT]))
        assert tuple(images_of(model.requests[-1])) == (CAT, DOG, ADDRESS)


def test_trimmed_steps_take_their_images_along() -> None:
    for kind, (_, act, finish) in AGENTS.items():
        made, model = executor(kind, act, act, finish, trim_intermediate_steps=1)
        made.run(inputs(kind))
        assert tuple(images_of(model.requests[-1])) == (DOG, ADDRESS)


def test_history_keeps_the_images_of_its_messages() -> None:
    stored = json.loads(
        json.dumps([dataclasses.asdict(one) for one in (UserMessage("", (CAT,)), ToolMessage("c", "", (DOG,)))])
    )
    assert parse_messages(stored) == (UserMessage("", (CAT,)), ToolMessage("c", "", (DOG,)))
    made, model = executor("tool calling", "done")
    made.run({"input": "?", "chat_history": stored[:1]})
    assert tuple(images_of(model.requests[0])) == (CAT,)


def test_history_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def decode(data: str, *, validate: bool) -> bytes:
        parsed.append(data)
        return PNG

    monkeypatch.setattr(base64, "b64decode", decode)
    made, model = executor("tool calling", CALL, CALL, "done")
    history = [{"role": "user", "content": "", "images": [{"url": CAT.url, "kind": "graphexec.image"}]}]
    made.run({"input": "?", "chat_history": history})
    assert [next(images_of(request)) for request in model.requests] == [CAT, CAT, CAT]
    assert parsed == [CAT.data]


@cases("images", [3, "x", [3], [{"url": "x"}], [{"kind": "graphexec.image", "url": "x"}]])
def test_history_with_invalid_images_is_refused(images: Any) -> None:
    assert parse_messages([{"role": "user", "content": "", "images": images}]) is None


CIRCLE: list[Any] = [CAT]
CIRCLE.append(CIRCLE)
OBSERVATIONS: dict[str, tuple[Any, str, tuple[Image, ...]]] = {
    "an image": (CAT, "[image 1: image/png, 70 bytes]", (CAT,)),
    "a list": (["See:", CAT], "See:\n[image 1: image/png, 70 bytes]", (CAT,)),
    "a tuple": ((CAT, {"a": 1}), '[image 1: image/png, 70 bytes]\n{"a":1}', (CAT,)),
    "a list in a list": (
        [[CAT, "a"], DOG],
        "[image 1: image/png, 70 bytes]\na\n[image 2: image/gif, 42 bytes]",
        (CAT, DOG),
    ),
    "a dict": (
        {"a": [DOG], "b": CAT},
        '{"a":["[image 1: image/gif, 42 bytes]"],"b":"[image 2: image/png, 70 bytes]"}',
        (DOG, CAT),
    ),
    "a dataclass": (
        UserMessage("a", (CAT,)),
        '{"content":"a","images":["[image 1: image/png, 70 bytes]"],"role":"user"}',
        (CAT,),
    ),
    "a set": ({CAT}, "[image 1: image/png, 70 bytes]", (CAT,)),
    "a queue": (deque(["a", CAT]), "a\n[image 1: image/png, 70 bytes]", (CAT,)),
    "a list that contains itself": (
        CIRCLE,
        "[image 1: image/png, 70 bytes]\n[<Image image/png, 70 bytes>, [...]]",
        (CAT,),
    ),
    "not a number": ({"a": math.nan, "b": CAT}, '{"a":null,"b":"[image 1: image/png, 70 bytes]"}', (CAT,)),
    "bytes beside it": ([CAT, b"\xff"], "[image 1: image/png, 70 bytes]\nb'\\xff'", (CAT,)),
    "a string": ("graphexec.image", "graphexec.image", ()),
    "a list of a dict": (({"a": (CAT,)},), '[{"a":["[image 1: image/png, 70 bytes]"]}]', (CAT,)),
    "its own JSON": (
        dataclasses.asdict(ADDRESS),
        '{"url":"https://example.com/cat.png","kind":"graphexec.image"}',
        (),
    ),
    "other JSON": ({"kind": "graphexec.image", "url": "x"}, '{"kind":"graphexec.image","url":"x"}', ()),
    "a number": (3, "3", ()),
}


@cases("what", OBSERVATIONS)
def test_observation_is_split_into_text_and_images(what: str) -> None:
    observation, text, images = OBSERVATIONS[what]
    assert split_observation(observation) == (text, images)
    assert format_observation(observation) == text
    assert split_observation(stored(observation)) == (text, images)


VALUES = st.recursive(
    st.sampled_from([CAT, DOG, ADDRESS]) | st.text() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def stored(value: Any) -> Any:
    """Return a value as a snapshot in JSON restores it."""
    return restore_images(json.loads(json.dumps(dump_observation(value))))


@given(VALUES)
def test_stored_observation_has_the_same_text_and_images(value: Any) -> None:
    text, images = split_observation(value)
    assert "base64" not in text
    assert split_observation(stored(value)) == (text, images)
    assert stored(stored(value)) == stored(value)


NESTINGS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda inner: [inner],
    "objects": lambda inner: {"a": inner},
    "like images": lambda inner: {"kind": "graphexec.image", "url": inner},
    "like stored data": lambda inner: {"kind": "graphexec.data", "data": inner},
}


@cases("nest", NESTINGS.values())
@given(depth=st.integers(0, 300), innermost=st.sampled_from([CAT, 3]))
def test_deep_observation_is_read_from_its_snapshot(nest: Callable[[Any], Any], depth: int, innermost: Any) -> None:
    """Images may be lost where they are nested deeper than any snapshot can be read, and the text is not."""
    observation = functools.reduce(lambda inner, _: nest(inner), range(depth), innermost)
    step = AgentStep(AgentAction("look", ""), observation)
    restored = load_as(AgentStep, json.loads(json.dumps(to_json_data(step)))).observation
    if depth <= 70:
        assert split_observation(restored) == split_observation(observation)
    if innermost == 3:
        assert format_observation(restored) == format_observation(observation)


def test_input_that_is_nested_too_deeply_is_not_stored() -> None:
    deep: Any = CAT
    for _ in range(160):
        deep = [deep]
    finish = AgentFinish({"output": deep})
    with pytest.raises(ValueError, match="nested more than 150 levels deep"):
        to_json_data(finish)


# JSON that a tool may have fetched: it looks like an image, or like the stored form of one.
FORGED: list[Any] = [
    {"kind": "graphexec.image", "url": ADDRESS.url},
    dataclasses.asdict(CAT),
    {"kind": "graphexec.image", "url": ADDRESS.url, "detail": "high"},
    {"kind": "graphexec.image"},
    {"kind": "graphexec.data", "data": dataclasses.asdict(ADDRESS)},
    {"kind": "graphexec.data", "data": {"kind": "graphexec.data", "data": dataclasses.asdict(ADDRESS)}},
    {"kind": "graphexec.data", "data": [dataclasses.asdict(ADDRESS)]},
    {"type": "image", "data": CAT.data, "mimeType": "image/png"},
    {"type": "image_url", "image_url": {"url": ADDRESS.url}},
    "#0",
    "##1",
    "[image 1: image/png, 70 bytes]",
]


@given(
    st.recursive(
        st.sampled_from([*FORGED, CAT, DOG]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "url", "data", "#0"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_only_instances_are_images(value: Any) -> None:
    def instances(part: Any) -> list[Image]:
        match part:
            case Image():
                return [part]
            case [*parts]:
                return [image for one in parts for image in instances(one)]
            case {**members}:
                return instances(list(members.values()))
            case _:
                return []

    assert list(split_observation(value)[1]) == instances(value)
    assert stored(value) == value


@cases("forged", FORGED)
def test_json_of_a_tool_is_no_image(forged: Any) -> None:
    @gx.tool
    def fetch(text: str) -> Any:
        """Fetch a document."""
        return forged if text == "alone" else [{"pages": [forged]}, DOG]

    def fetching(*replies: ScriptedReply) -> tuple[gx.AgentExecutor, ScriptedModel]:
        model = ScriptedModel(replies)
        return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [fetch]), tools=[fetch]), model

    calls = [ToolCall("c1", "fetch", '{"text": "alone"}'), ToolCall("c2", "fetch", '{"text": "within"}')]
    made, model = fetching(*calls, ModelError("it is down"))
    with pytest.raises(ModelError) as raised:
        made.run({"input": "?", "images": CAT, "profile": forged})
    assert tuple(images_of(model.requests[-1])) == (CAT, DOG)
    failed = gx.snapshot_of(raised.value)
    assert failed is not None
    for _ in range(2):
        resumed, asked = fetching("done")
        failed = gx.Snapshot.from_json(failed.to_json(), resumed.graph)
        result = resumed.run(failed)
        assert tuple(images_of(asked.requests[0])) == (CAT, DOG)
        assert [message.content for message in requested(asked)[0].messages] == [
            message.content for message in requested(model)[-1].messages
        ]
        assert result.ending.run.inputs["profile"] == forged
        assert [step.observation for step in result.steps] == [forged, [{"pages": [forged]}, DOG]]


def test_direct_result_stays_data_in_a_snapshot() -> None:
    forged = dataclasses.asdict(CAT)
    finish = AgentFinish({"output": forged, "seen": [CAT]})
    restored = load_as(AgentFinish, to_json_data(finish))
    assert restored.return_values == {"output": forged, "seen": [CAT]}


@cases("most", [1, 5, 30])
def test_cut_observation_keeps_its_images(most: int) -> None:
    made, model = executor("tool calling", max_observation=most)
    made.run("Which?")
    message = list(requested(model)[-1].messages)[-1]
    assert isinstance(message, ToolMessage)
    assert message.content.startswith(f"{LOOKED[:most]}\n[...")
    assert message.images == (DOG, ADDRESS)


def test_different_images_are_no_repetition() -> None:
    def steps(*images: Image) -> Steps:
        return Steps([AgentStep(AgentAction("look", "a"), image) for image in images])

    made, _ = executor("ReAct", LABEL)
    notice = made.plug(stop_repeats()).graph["stop_repeats"].function
    other = Image.from_bytes(PNG[:-1] + b"\0")
    assert str(other) == str(CAT)
    same, different = (notice(type_of(steps(*images))) for images in ((CAT, CAT), (CAT, other)))
    assert "exactly this" in str(same)
    assert "exactly this" not in str(different)


def type_of(steps: Steps) -> Any:
    from graphexec.executor import Ready

    return Ready(Run({"input": "?"}, steps))


def test_generated_parts_are_one_observation() -> None:
    @gx.tool
    def stream(text: str) -> Any:
        """Yield a picture."""
        yield text
        yield CAT

    model = ScriptedModel([ToolCall("c1", "stream", '{"text": "See:"}'), "done"])
    gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [stream]), tools=[stream]).run("?")
    assert tuple(images_of(model.requests[-1])) == (CAT,)


def test_direct_result_may_be_an_image() -> None:
    @gx.tool(return_direct=True)
    def draw(text: str) -> Image:
        """Draw a cat."""
        return CAT

    model = ScriptedModel([ToolCall("c1", "draw", '{"text": ""}')] * 2)
    made = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [draw]), tools=[draw])
    assert made.run("?").output == CAT
    assert list(made.stream_answer("?")) == ["[image 1: image/png, 70 bytes]"]


def test_chunks_carry_the_images() -> None:
    made, _ = executor("tool calling")
    messages = [one for chunk in made.stream_chunks("?") for one in chunk["messages"]]
    assert [one.images for one in messages if isinstance(one, ToolMessage)] == [(DOG, ADDRESS)]
