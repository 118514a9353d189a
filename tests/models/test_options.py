"""The options of models for their requests: what is sent, and what is refused."""

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import models
from graphexec.errors import BadRequestError, InputError
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply, SystemMessage, ToolSpec, UserMessage
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ScriptedModel
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel
from tests.models.actors import HELLO, Script, encode
from tests.models.picky_server import PickyServer, Protocol
from tests.parameters import cases

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {}})
OFFERING = (ADD, ToolSpec("now", "Tell the time.", {"type": "object", "properties": {}}))
PROTOCOLS: tuple[Protocol, ...] = ("chat", "responses", "anthropic")


def body_of(protocol: Protocol, request: ChatRequest = HELLO, **options: Any) -> dict[str, Any]:
    server = PickyServer(protocol, ["a"])
    server.model(**options).complete(request)
    return server.bodies[0]


def extra(**body: Any) -> dict[str, Any]:
    return {"extra_body": body}


NO_SEED = "which its protocol does not have; leave it out, or pass extra_body={'seed': ...}"


@cases(
    ("protocol", "effort", "always"),
    ("chat", {"seed": 3, "reasoning_effort": "low"}, {"model", "messages"}),
    ("responses", {"reasoning": {"effort": "low"}}, {"model", "input", "store"}),
    ("anthropic", {"output_config": {"effort": "low"}}, {"model", "messages", "max_tokens"}),
)
def test_only_set_options_are_sent_by_their_names(protocol: Protocol, effort: dict[str, Any], always: set[str]) -> None:
    # A seed, which the other protocols lack, may be in their extra body.
    seed: dict[str, Any] = {"seed": 3} if protocol == "chat" else {"extra_body": {"seed": 3}}
    body = body_of(protocol, top_p=0.5, reasoning_effort="low", **seed)
    assert body == body | effort | {"top_p": 0.5, "seed": 3}
    assert {*body_of(protocol)} == always


# A client, an option of it, and the facts of the refusal.
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (OpenAICompatible, {"top_p": 1.5}, "top_p=1.5; give a number from 0 to 1"),
    (OpenAICompatible, {"top_p": "high"}, "top_p='high'; give a number from 0 to 1"),
    (OpenAICompatible, {"seed": 1.5}, "seed=1.5; give a whole number"),
    (OpenAICompatible, {"seed": True}, "seed=True; give a whole number"),
    (OpenAICompatible, {"reasoning_effort": ""}, "reasoning_effort=''; give the name of an effort, such as 'low'"),
    (OpenAICompatible, {"extra_body": [1]}, "extra_body=[1]; give a dict"),
    (OpenAICompatible, {"extra_body": {1: 2}}, "extra_body={1: 2}; give a dict"),
    (OpenAICompatible, {"extra_headers": "x"}, "extra_headers of the class str; give a dict, or None"),
    (OpenAICompatible, {"extra_headers": {"a b": "c"}}, "'a b' in extra_headers; give the name of a header"),
    (OpenAICompatible, {"extra_headers": {"Content-Type": "x"}}, "Content-Type in extra_headers; the client sets it"),
    # tests/models/test_secrets.py has the values.
    (OpenAICompatible, {"extra_headers": {"X-Key": "a\n"}}, "an invalid value of X-Key in extra_headers"),
    (OpenAIResponses, {"seed": 3}, f"seed=3, {NO_SEED}"),
    (Anthropic, {"seed": 3}, f"seed=3, {NO_SEED}"),
    (OpenAICompatible, extra(a={1, 2}), "an extra_body that is not JSON: "),
    # The extra body never replaces the request.
    (OpenAICompatible, extra(messages=[]), "messages in extra_body; each request writes it; leave it out"),
    (OpenAICompatible, extra(temperature=0), "temperature in extra_body; pass temperature"),
    (OpenAICompatible, extra(max_completion_tokens=9), "max_completion_tokens in extra_body; pass max_tokens, which"),
    (OpenAICompatible, extra(tool_choice="auto"), "tool_choice in extra_body; pass tool_choice to create_tool_"),
    (OpenAICompatible, extra(stream_options={"include_usage": False}), "stream_options.include_usage in extra_body; a"),
    (OpenAICompatible, extra(stream_options=3), "stream_options=3 in extra_body; give a dict"),
    (OpenAIResponses, extra(text="x"), "text='x' in extra_body; give a dict"),
    (OpenAIResponses, extra(reasoning={"effort": "low"}), "reasoning.effort in extra_body; pass reasoning_effort"),
    (OpenAIResponses, extra(text={"format": {}}), "text.format in extra_body; each request writes it; leave it out"),
    (Anthropic, extra(output_config={"effort": "low"}), "output_config.effort in extra_body; pass reasoning_effort"),
    (Anthropic, extra(messages=[]), "messages in extra_body; each request writes it; leave it out"),
]


@cases(("make", "options", "message"), *REFUSED)
def test_invalid_option_is_refused(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make("m", **options)
    assert str(caught.value).startswith(f"{make.__name__} has {message}")


def test_extra_body_is_merged_with_the_request() -> None:
    thinking = {"type": "enabled"}
    extra = {"thinking": thinking, "stream_options": {"include_obfuscation": False}, "nothing": None}
    server = PickyServer("chat", ["a"])
    model = server.model(extra_body=extra)
    # A later change has no effect.
    thinking["type"] = "disabled"
    list(model.stream(HELLO))
    (body,) = server.bodies
    assert body["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert (body["thinking"], body["nothing"]) == ({"type": "enabled"}, None)
    extra = {"include": ["x"], "reasoning": {"summary": "auto"}, "store": True}
    offering = ChatRequest([UserMessage("hi")], (ADD,))
    responses = body_of("responses", offering, reasoning_effort="low", extra_body=extra)
    assert responses["include"] == ["reasoning.encrypted_content", "x"]
    assert responses["reasoning"] == {"effort": "low", "summary": "auto"}
    assert responses["store"] is True


SEARCH = {"type": "web_search"}
CACHE = {"cache_control": {"type": "ephemeral"}}
FUNCTION = {"name": "add", "description": ADD.description, "parameters": ADD.parameters}
OURS = {"name": "add", "description": ADD.description, "input_schema": ADD.parameters}


def chat_tool(**members: Any) -> dict[str, Any]:
    return {"type": "function", "function": FUNCTION | members}


def block(text: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **members}


@cases(
    ("protocol", "extra", "expected"),
    ("responses", {"tools": [SEARCH]}, {"tools": [{"type": "function", "strict": False, **FUNCTION}, SEARCH]}),
    ("chat", {"tools": [SEARCH, SEARCH], "web_search_options": {}}, {"tools": [chat_tool(), SEARCH]}),
    ("chat", {"tools": [{"function": {"name": "add", "strict": True}}]}, {"tools": [chat_tool(strict=True)]}),
    ("anthropic", {"tools": [SEARCH]}, {"tools": [OURS, SEARCH], "system": "be brief"}),
    # The name of one of ours, and no name.
    ("anthropic", {"tools": [{"name": "add", **CACHE}]}, {"tools": [OURS | CACHE]}),
    ("anthropic", {"tools": [CACHE, SEARCH]}, {"tools": [OURS | CACHE, SEARCH]}),
    ("anthropic", {"tools": [{"name": "add", "description": "x"}]}, {"tools": [OURS]}),
    ("anthropic", {"tools": [{"name": "other", **CACHE}], "system": None}, {"tools": [OURS]}),
    ("anthropic", {"system": [CACHE]}, {"system": [block("be brief", **CACHE)]}),
    ("anthropic", {"system": [block("x", **CACHE)]}, {"system": [block("be brief"), block("x", **CACHE)]}),
    ("anthropic", {"system": "x"}, {"system": [block("be brief"), block("x")]}),
    ("anthropic", CACHE, CACHE),
)
def test_server_tools_and_caching_are_merged(
    protocol: Protocol, extra: dict[str, Any], expected: dict[str, Any]
) -> None:
    request = ChatRequest([SystemMessage("be brief"), UserMessage("hi")], (ADD,))
    body = body_of(protocol, request, extra_body=extra)
    assert body == body | expected


def test_tools_of_a_server_need_none_of_ours() -> None:
    assert body_of("anthropic", extra_body={"tools": [SEARCH, CACHE]})["tools"] == [SEARCH]
    assert "tools" not in body_of("anthropic", extra_body={"tools": [CACHE]})
    assert "system" not in body_of("anthropic", extra_body={"system": [CACHE]})
    completion = encode(CHAT_COMPLETIONS, CompletionRequest("a"), extra_body={"tools": [SEARCH], "min_p": 1})
    assert completion == {"model": "tiny", "prompt": "a", "min_p": 1}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
NAMES = st.sampled_from(["stream_options", "thinking", "include", "reasoning", "output_config", "text", "a", ""])


@cases("protocol", *PROTOCOLS)
@given(extra=st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_extra_body_leaves_the_request_alone(protocol: Protocol, extra: dict[str, Any]) -> None:
    offering = ChatRequest([UserMessage("hi")], (ADD,), schema={"type": "object"})
    options: dict[str, Any] = {"temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low"}
    plain = body_of(protocol, offering, **options)
    try:
        merged = body_of(protocol, offering, extra_body=extra, **options)
    except InputError:
        return
    assert contains(merged, plain)
    assert contains(merged, extra)


def contains(whole: Any, part: Any) -> bool:
    """Return whether a value has all members and items of another one."""
    if isinstance(part, dict) and isinstance(whole, dict):
        members: dict[str, Any] = {**part}
        return all(name in whole and contains(whole[name], value) for name, value in members.items())
    if isinstance(whole, list):
        items: list[Any] = [*part] if isinstance(part, list) else [part]
        return all(item in whole for item in items)
    return bool(whole == part)


class TestHeaders:
    def test_extra_headers_are_sent(self) -> None:
        script = Script(httpx.Response(200, json={"content": [], "stop_reason": "end_turn"}))
        headers = {"anthropic-beta": "x", "Anthropic-Version": "2026-10-21"}
        client = httpx.Client(transport=script.transport)
        Anthropic("m", api_key="sk-12345678", client=client, extra_headers=headers).complete(HELLO)
        sent = script.requests[0].headers
        assert sent["anthropic-beta"] == "x"
        assert sent.get_list("anthropic-version") == ["2026-10-21"]

    def test_credentials_in_a_header_replace_the_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        OpenAICompatible("m", base_url="https://x.openai.azure.com", extra_headers={"API-Key": "a"}).check_access()

    def test_options_and_headers_distinguish_cached_replies(self) -> None:
        given: list[dict[str, Any]] = [{}, {"seed": 1}, {"top_p": 0.5}, {"reasoning_effort": "low"}]
        given += [{"extra_headers": {"anthropic-beta": beta}} for beta in "ab"] + [{"extra_body": {"min_p": 0.1}}]
        made: list[OpenAICompatible | Anthropic | LocalModel] = [OpenAICompatible("m", **options) for options in given]
        made += [kind("m", temperature=1) for kind in (OpenAICompatible, Anthropic)]
        made += [LocalModel(temperature=temperature) for temperature in (0, 1)]
        assert len({model.identity for model in made}) == len(made)


NOW = {"type": "function", "name": "now"}
CHOICES: list[tuple[str, Any, Any, Any]] = [
    ("auto", None, None, None),
    ("none", "none", "none", {"type": "none"}),
    ("required", "required", "required", {"type": "any"}),
    ("now", {"type": "function", "function": {"name": "now"}}, NOW, {"type": "tool", "name": "now"}),
]


@cases(("choice", "chat", "responses", "anthropic"), *CHOICES)
def test_tool_choice_is_sent_in_each_protocol(choice: str, chat: Any, responses: Any, anthropic: Any) -> None:
    request = ChatRequest([UserMessage("hi")], OFFERING, tool_choice=choice)
    sent = [body_of(protocol, request).get("tool_choice") for protocol in PROTOCOLS]
    assert sent == [chat, responses, anthropic]


@cases(
    ("choice", "tools", "fact"),
    ("multiply", OFFERING, "tool_choice='multiply': the request offers add, now; write auto"),
    ("multiply", (), "tool_choice='multiply': the request offers no tools; write auto"),
    ("required", (), "tool_choice='required': the request offers no tools"),
)
@cases("protocol", *PROTOCOLS)
def test_tool_choice_must_be_offered(protocol: Protocol, choice: str, tools: tuple[ToolSpec, ...], fact: str) -> None:
    with pytest.raises(BadRequestError, match=fact):
        body_of(protocol, ChatRequest([UserMessage("hi")], tools, tool_choice=choice))
    assert "tool_choice" not in body_of(protocol, ChatRequest([UserMessage("hi")], tool_choice="none"))


@cases(
    ("base_url", "provider"),
    (None, "openai"),
    ("https://api.deepseek.com/v1", "deepseek"),
    ("https://mine.openai.azure.com/openai/v1", "azure.ai.openai"),
    ("https://us-central1-aiplatform.googleapis.com/v1", "gcp.vertex_ai"),
    ("https://openrouter.ai/api/v1", "openrouter"),
    ("https://me:secret@models.example:8443/v1", "models.example:8443"),
    ("http://127.0.0.1:11434/v1", "127.0.0.1:11434"),
    ("https://notopenrouter.ai", "notopenrouter.ai"),
    ("http://[", ""),
)
def test_provider_is_named_by_the_address(base_url: str | None, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = OpenAICompatible("gpt-9", base_url=base_url)
    assert (model.name, model.provider) == ("gpt-9", provider)


def test_every_model_has_a_name_and_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    claude, local, scripted = Anthropic("claude-9"), LocalModel(model="tiny"), ScriptedModel([])
    named = [(model.name, model.provider) for model in (claude, local, scripted)]
    assert named == [("claude-9", "anthropic"), ("tiny", "llama.cpp"), ("scripted", "scripted")]
    inner = models.priced(models.cached(models.with_fallbacks(claude, scripted)), models.Price(1, 1))
    assert (inner.name, inner.provider) == ("claude-9", "anthropic")

    async def flow(call: ModelCall) -> ModelReply:
        return await call.ask(scripted)

    own: list[Any] = [SimpleNamespace(complete=scripted.complete, acomplete=scripted.complete)]
    for inner_models in (own, []):
        wrapped = WrappedModel("own", inner_models, flow)
        assert (wrapped.name, wrapped.provider) == ("", "")
