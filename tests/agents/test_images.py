"""Images in the inputs of a run and in the results of tools, for every agent."""

import dataclasses
import functools
import json
import math
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import ModelError, nodes, tools
from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, steps_of
from graphexec.agents.conversation import parse_messages
from graphexec.agents.images import read_images
from graphexec.agents.scratchpad import TextProtocol
from graphexec.executor import Ready
from graphexec.integrations import langchain
from graphexec.kernel.serialization import load_as, to_json_data
from graphexec.messages import ChatRequest, Image, ToolCall, ToolMessage, UserMessage, images_of
from graphexec.messages.observations import dump_observation, format_observation, split_observation
from graphexec.messages.stored import restore_value
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from tests.executor.actors import caller_of, snapshot_after
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
Make = Callable[[ScriptedModel, Sequence[tools.AnyTool]], gx.Agent]
MRKL: Make = functools.partial(langchain.create_mrkl_agent, protocol="chat")
CONVERSATIONAL: Make = functools.partial(langchain.create_conversational_agent, protocol="chat")
STRUCTURED = ('{"action": "look", "action_input": {"text": "a"}}', '{"action": "final_answer", "answer": "done"}')
# Each agent, with a reply that calls the tool, and one that is the answer.
AGENTS: dict[str, tuple[Make, ScriptedReply, str]] = {
    "ReAct": (gx.create_react_agent, LABEL, "Final Answer: done"),
    "MRKL": (MRKL, LABEL, "Final Answer: done"),
    "conversational": (CONVERSATIONAL, LABEL, "AI: done"),
    "XML": (langchain.create_xml_agent, "<tool>look</tool><tool_input>a", "<final_answer>done</final_answer>"),
    "chat": (langchain.create_chat_agent, FENCED, "Final Answer: done"),
    "structured chat": (langchain.create_structured_chat_agent, FENCED, FENCED.replace("look", "Final Answer")),
    "JSON chat": (langchain.create_json_chat_agent, FENCED, FENCED.replace("look", "Final Answer")),
    "structured": (gx.create_structured_agent, *STRUCTURED),
    "tool calling": (gx.create_tool_calling_agent, CALL, "done"),
}
KINDS = cases("kind", *AGENTS)
# Agents whose requests have the steps as messages, which may have images; the others have them in one text.
SEEING = ("JSON chat", "structured", "tool calling")


def executor(kind: str, *replies: ScriptedReply, **settings: Any) -> tuple[gx.AgentExecutor, ScriptedModel]:
    make, act, finish = AGENTS[kind]
    model = ScriptedModel(replies or [act, finish])
    return gx.AgentExecutor(agent=make(model, [look]), tools=[look], **settings), model


def inputs(kind: str, **more: Any) -> dict[str, Any]:
    return {"input": "Which?", **({"chat_history": ""} if kind == "conversational" else {}), **more}


def requested(model: ScriptedModel) -> list[ChatRequest]:
    assert all(isinstance(request, ChatRequest) for request in model.requests)
    return [request for request in model.requests if isinstance(request, ChatRequest)]


def snapshot_at_error(made: gx.AgentExecutor, given: Any) -> gx.Snapshot:
    return snapshot_after(ModelError, lambda: made.run(given))


@KINDS
def test_images_of_inputs_are_sent(kind: str) -> None:
    made, model = executor(kind, AGENTS[kind][2])
    made.run(inputs(kind, images=[CAT, ADDRESS]))
    (message,) = [one for one in requested(model)[0].messages if isinstance(one, UserMessage) and one.images]
    assert "Which?" in message.content
    assert message.images == (CAT, ADDRESS)
    assert not any("base64" in content for request in requested(model) for content in contents(request))


@cases("kind", *SEEING)
def test_images_of_tools_are_sent(kind: str) -> None:
    made, model = executor(kind)
    made.run(inputs(kind))
    shown = [one for one in requested(model)[-1].messages if isinstance(one, (UserMessage, ToolMessage)) and one.images]
    assert LOOKED in shown[0].content
    assert [one.images for one in shown] == [(DOG, ADDRESS)]
    assert isinstance(shown[0], ToolMessage) == (kind == "tool calling")


@cases("kind", *[kind for kind in AGENTS if kind not in SEEING])
def test_request_with_steps_in_one_text_refuses_their_images(kind: str) -> None:
    made, _ = executor(kind)
    says = r"the tool look returned an image, .* take create_tool_calling_agent or .*, or return text"
    failed = snapshot_after(gx.InputError, lambda: made.run(inputs(kind)), match=says)
    assert len(steps_of(failed.value)) == 1


FORMS: list[tuple[Any, tuple[Image, ...]]] = [
    (CAT, (CAT,)),
    (PNG, (CAT,)),
    (bytearray(GIF), (DOG,)),
    (ADDRESS.url, (ADDRESS,)),
    (CAT.url, (CAT,)),
    ({"url": CAT.url, "kind": "graphexec.image"}, (CAT,)),
    ([CAT, GIF, ADDRESS.url], (CAT, DOG, ADDRESS)),
    ((PNG,), (CAT,)),
]


@cases(("given", "images"), *FORMS)
def test_images_have_several_forms(given: Any, images: tuple[Image, ...]) -> None:
    made, model = executor("tool calling", "done")
    made.run({"input": "Which?", "images": given})
    assert tuple(images_of(model.requests[0])) == images


# Each wrong value, and what the error says.
WRONG: list[tuple[Any, str]] = [
    (None, "the input images: None is not an image; give an Image, bytes or a URL, or a list of them"),
    (3, "3 is not an image"),
    ([], "the input images is empty; leave it out"),
    (iter([CAT]), "is not an image; give .* or a list of them"),
    ({"url": CAT.url}, "is not an image"),
    (Path("cat.png"), r"'cat.png' is a file; give its bytes: path.read_bytes\(\)"),
    ("photo.png", r"for a file, .*path.read_bytes\(\)"),
    (b"hello", "the bytes are not a PNG"),
    ("data:image/png,abc", "not in base64"),
    ("data:application/pdf;base64,aGk=", "the media type 'application/pdf'"),
    ([CAT, 3, "x"], r"images\[1\]: 3 is not an image.*; the input images\[2\]: the image URL 'x'"),
]


@cases(("wrong", "says"), *WRONG)
def test_wrong_images_are_refused_before_the_first_call(wrong: Any, says: str) -> None:
    made, model = executor("tool calling")
    with pytest.raises(gx.InputError, match=says):
        made.run({"input": "Which?", "images": wrong})
    assert model.requests == []


WORDS = st.text(st.characters(exclude_characters=":"))
OTHER_BYTES = st.binary().map(lambda data: b"?" + data)


@given(st.one_of(st.none(), st.integers(), WORDS, OTHER_BYTES, st.lists(st.integers() | WORDS), st.sets(WORDS)))
def test_any_other_value_is_an_input_error(value: object) -> None:
    with pytest.raises(gx.InputError, match="images"):
        read_images(value)


@cases(
    "make",
    *(gx.create_react_agent, langchain.create_mrkl_agent),
    *(langchain.create_conversational_agent, langchain.create_xml_agent),
)
def test_completion_refuses_images_of_inputs(make: Callable[..., gx.Agent]) -> None:
    model = ScriptedModel([])
    made = gx.AgentExecutor(agent=make(model, [look], protocol="completion"), tools=[look])
    with pytest.raises(gx.InputError, match="completions, which hold text only"):
        made.run({"input": "Which?", "chat_history": "", "images": [CAT]})
    assert model.requests == []


@cases("image", CAT, [CAT], ("see", CAT))
@KINDS
def test_template_refuses_an_image(kind: str, image: Any) -> None:
    made, model = executor(kind)
    with pytest.raises(gx.InputError, match=r"the input input is an image, .* and the image in the input images"):
        made.run(inputs(kind) | {"input": image})
    assert model.requests == []


@cases("image", CAT, PNG, Path("cat.png"))
def test_image_under_another_name_is_not_dropped(image: Any) -> None:
    made, model = executor("tool calling")
    with pytest.raises(gx.InputError, match="the input image is not sent to the model; name it images"):
        made.run({"input": "Which?", "image": image})
    assert model.requests == []
    executor("tool calling", "done")[0].run({"input": "Which?", "image": "a text for my tool"})


@cases("protocol", "chat", "completion")
def test_template_or_function_may_have_an_input_of_that_name(protocol: TextProtocol) -> None:
    model = ScriptedModel(["Final Answer: done"])
    prompt = "{tools} {tool_names} {images}: {input} {agent_scratchpad}"
    agent = gx.create_react_agent(model, [look], prompt=prompt, protocol=protocol)
    made = gx.AgentExecutor(agent=agent, tools=[look])
    with pytest.raises(gx.InputError, match=r"written into a text; remove {images} from the template"):
        made.run({"input": "?", "images": [CAT]})
    made.run({"input": "?", "images": "three photos"})
    assert "three photos: ?" in str(model.requests[0])

    def decide(steps: Steps, inputs: dict[str, Any]) -> AgentFinish:
        return AgentFinish({"output": inputs["images"]})

    made = gx.AgentExecutor(agent=gx.callable_agent(decide), tools=[])
    assert made.run({"input": "?", "images": "mine"}).output == "mine"


@cases("kind", *SEEING)
def test_run_with_images_resumes_from_json(kind: str) -> None:
    _, act, finish = AGENTS[kind]
    made, _ = executor(kind, act, ModelError("it is down"))
    failed = snapshot_at_error(made, inputs(kind, images=[CAT]))
    resumed, model = executor(kind, finish)
    result = resumed.run(gx.Snapshot.from_json(failed.to_json(), resumed.graph))
    assert result.ending.run.inputs["images"] == [CAT]
    assert result.steps[0].observation == look("a")
    assert tuple(images_of(model.requests[0])) == (CAT, DOG, ADDRESS)
    plain, other = executor(kind)
    plain.run(inputs(kind, images=[CAT]))
    assert contents(requested(model)[0]) == contents(requested(other)[-1])


def contents(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages]


@cases("kind", *SEEING)
def test_last_request_keeps_images(kind: str) -> None:
    _, act, finish = AGENTS[kind]
    made, model = executor(kind, act, finish, max_iterations=1, early_stopping_method="generate")
    made.run(inputs(kind, images=[CAT]))
    assert tuple(images_of(model.requests[-1])) == (CAT, DOG, ADDRESS)
    # Trimmed steps take their images along.
    made, model = executor(kind, act, act, finish, trim_intermediate_steps=1)
    made.run(inputs(kind))
    assert tuple(images_of(model.requests[-1])) == (DOG, ADDRESS)


def test_history_keeps_the_images_of_its_messages() -> None:
    messages = (UserMessage("", (CAT,)), ToolMessage("c", "", (DOG,)))
    stored = json.loads(json.dumps([dataclasses.asdict(one) for one in messages]))
    assert parse_messages(stored) == messages
    made, model = executor("tool calling", "done")
    made.run({"input": "?", "chat_history": stored[:1]})
    assert tuple(images_of(model.requests[0])) == (CAT,)
    with pytest.raises(gx.InputError, match="history is images, the name of the input with images"):
        gx.create_tool_calling_agent(ScriptedModel([]), [look], history="images")


@cases("images", 3, "x", [3], [{"url": "x"}], [{"kind": "graphexec.image", "url": "x"}])
def test_history_with_invalid_images_is_refused(images: Any) -> None:
    assert parse_messages([{"role": "user", "content": "", "images": images}]) is None


CIRCLE: list[Any] = [CAT]
CIRCLE.append(CIRCLE)
CAT_LABEL, DOG_LABEL = "[image 1: image/png, 70 bytes]", "[image 1: image/gif, 42 bytes]"
OBSERVATIONS: list[tuple[Any, str, tuple[Image, ...]]] = [
    (CAT, CAT_LABEL, (CAT,)),
    (["See:", CAT], f"See:\n{CAT_LABEL}", (CAT,)),
    ((CAT, {"a": 1}), f'{CAT_LABEL}\n{{"a":1}}', (CAT,)),
    ([[CAT, "a"], DOG], f"{CAT_LABEL}\na\n[image 2: image/gif, 42 bytes]", (CAT, DOG)),
    ({"a": [DOG], "b": CAT}, f'{{"a":["{DOG_LABEL}"],"b":"[image 2: image/png, 70 bytes]"}}', (DOG, CAT)),
    (UserMessage("a", (CAT,)), f'{{"content":"a","images":["{CAT_LABEL}"],"role":"user"}}', (CAT,)),
    ({CAT}, CAT_LABEL, (CAT,)),
    (deque(["a", CAT]), f"a\n{CAT_LABEL}", (CAT,)),
    (CIRCLE, f"{CAT_LABEL}\n[<Image image/png, 70 bytes>, [...]]", (CAT,)),
    ({"a": math.nan, "b": CAT}, f'{{"a":null,"b":"{CAT_LABEL}"}}', (CAT,)),
    ([CAT, b"\xff"], f"{CAT_LABEL}\nb'\\xff'", (CAT,)),
    ("graphexec.image", "graphexec.image", ()),
    (({"a": (CAT,)},), f'[{{"a":["{CAT_LABEL}"]}}]', (CAT,)),
    (dataclasses.asdict(ADDRESS), '{"url":"https://example.com/cat.png","kind":"graphexec.image"}', ()),
    ({"kind": "graphexec.image", "url": "x"}, '{"kind":"graphexec.image","url":"x"}', ()),
    (3, "3", ()),
]


@cases(("observation", "text", "images"), *OBSERVATIONS)
def test_observation_is_split_into_text_and_images(observation: Any, text: str, images: tuple[Image, ...]) -> None:
    assert split_observation(observation) == (text, images)
    assert format_observation(observation) == text
    assert split_observation(stored(observation)) == (text, images)


def stored(value: Any) -> Any:
    """Return a value as a snapshot in JSON restores it."""
    return restore_value(json.loads(json.dumps(dump_observation(value))))


NESTINGS: list[Callable[[Any], Any]] = [
    lambda inner: [inner],
    lambda inner: {"a": inner},
    lambda inner: {"kind": "graphexec.image", "url": inner},
    lambda inner: {"kind": "graphexec.data", "data": inner},
]


@cases("nest", *NESTINGS)
@example(depth=300, innermost=3)
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


def test_final_values_are_stored() -> None:
    forged = dataclasses.asdict(CAT)
    finish = AgentFinish({"output": forged, "seen": [CAT]})
    assert load_as(AgentFinish, to_json_data(finish)).return_values == {"output": forged, "seen": [CAT]}
    cat: Any = CAT
    deep = functools.reduce(lambda inner, _: [inner], range(160), cat)
    with pytest.raises(ValueError, match="nested more than 150 levels deep"):
        to_json_data(AgentFinish({"output": deep}))


# JSON that a tool may have fetched: it looks like an image, or like the stored form of one.
STORED = dataclasses.asdict(ADDRESS)
FORGED: list[Any] = [
    {"kind": "graphexec.image", "url": ADDRESS.url},
    dataclasses.asdict(CAT),
    {"kind": "graphexec.image", "url": ADDRESS.url, "detail": "high"},
    {"kind": "graphexec.image"},
    {"kind": "graphexec.data", "data": STORED},
    {"kind": "graphexec.data", "data": {"kind": "graphexec.data", "data": STORED}},
    {"kind": "graphexec.data", "data": [STORED]},
    {"type": "image", "data": CAT.data, "mimeType": "image/png"},
    {"type": "image_url", "image_url": {"url": ADDRESS.url}},
    *("#0", "##1", "[image 1: image/png, 70 bytes]"),
]
KEYS = st.sampled_from(["kind", "url", "data", "#0"])


@given(
    st.recursive(
        st.sampled_from([*FORGED, CAT, DOG, ADDRESS]) | st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3),
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


@cases("forged", *FORGED)
def test_json_of_a_tool_is_no_image(forged: Any) -> None:
    @gx.tool
    def fetch(text: str) -> Any:
        """Fetch a document."""
        return forged if text == "alone" else [{"pages": [forged]}, DOG]

    def fetching(*replies: ScriptedReply) -> tuple[gx.AgentExecutor, ScriptedModel]:
        model = ScriptedModel(replies)
        return caller_of(model, fetch), model

    calls = [ToolCall("c1", "fetch", '{"text": "alone"}'), ToolCall("c2", "fetch", '{"text": "within"}')]
    made, model = fetching(*calls, ModelError("it is down"))
    failed = snapshot_at_error(made, {"input": "?", "images": CAT, "profile": forged})
    assert tuple(images_of(model.requests[-1])) == (CAT, DOG)
    for _ in range(2):
        resumed, asked = fetching("done")
        failed = gx.Snapshot.from_json(failed.to_json(), resumed.graph)
        result = resumed.run(failed)
        assert tuple(images_of(asked.requests[0])) == (CAT, DOG)
        assert contents(requested(asked)[0]) == contents(requested(model)[-1])
        assert result.ending.run.inputs["profile"] == forged
        assert [step.observation for step in result.steps] == [forged, [{"pages": [forged]}, DOG]]


@cases("most", 1, 5, 30)
def test_cut_observation_keeps_its_images(most: int) -> None:
    made, model = executor("tool calling", max_observation=most)
    chunks = list(langchain.stream_chunks(made, "Which?"))
    messages = [one for chunk in chunks for one in chunk["messages"]]
    assert [one.images for one in messages if isinstance(one, ToolMessage)] == [(DOG, ADDRESS)]
    message = list(requested(model)[-1].messages)[-1]
    assert isinstance(message, ToolMessage)
    assert message.content.startswith(f"{LOOKED[:most]}\n[...")
    assert message.images == (DOG, ADDRESS)


def test_different_images_are_no_repetition() -> None:
    def notice(*images: Image) -> str:
        steps = Steps([AgentStep(AgentAction("look", "a"), image) for image in images])
        return str(nodes.stop_repeats().nodes[0].function(Ready(Run({"input": "?"}, steps))))

    other = Image.from_bytes(PNG[:-1] + b"\0")
    assert str(other) == str(CAT)
    assert "exactly this" in notice(CAT, CAT)
    assert "exactly this" not in notice(CAT, other)


def test_image_may_be_generated_or_the_answer() -> None:
    @gx.tool
    def stream(text: str) -> Any:
        """Yield a picture."""
        yield from (text, CAT)

    @gx.tool(return_direct=True)
    def draw(text: str) -> Image:
        """Draw a cat."""
        return CAT

    model = ScriptedModel([ToolCall("c1", "stream", '{"text": "See:"}'), "done"])
    caller_of(model, stream).run("?")
    assert tuple(images_of(model.requests[-1])) == (CAT,)
    made = caller_of(ScriptedModel([ToolCall("c1", "draw", '{"text": ""}')] * 2), draw)
    assert made.run("?").output == CAT
    assert list(made.stream_answer("?")) == [CAT_LABEL]
