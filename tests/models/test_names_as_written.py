"""Models named by a string: what names stand for, what to write instead, addresses, keys, and native tool calls."""

import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphexec.cli.runs.options import make_model
from graphexec.errors import InputError, MissingAPIKeyError
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, create_model
from graphexec.models.naming import has_native_tool_calls, split_name
from graphexec.models.provider_names import ADDRESS_REMEDIES, PROVIDERS, SERVERS, find_provider
from tests.cli.conversations import serving
from tests.models.actors import HELLO
from tests.parameters import cases, read_tables

TEXTS = read_tables(__file__)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS:
        monkeypatch.delenv(f"{provider.upper()}_BASE_URL", raising=False)
    for provider in ("GROQ", "OPENAI"):
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)


@cases("provider", *PROVIDERS)
def test_model_of_every_provider_has_its_name(provider: str) -> None:
    model: Any = create_model(f"{provider}:{'x.gguf' if provider == 'local' else 'a:b/c'}")
    assert model.name == ("x" if provider == "local" else "a:b/c")
    kinds = {"openai-responses": OpenAIResponses, "anthropic": Anthropic, "local": LocalModel}
    assert type(model) is kinds.get(provider, OpenAICompatible)
    # Each has one address.
    assert set(SERVERS) < set(PROVIDERS)
    assert not set(ADDRESS_REMEDIES) & set(PROVIDERS)


@cases(("name", "shown"), *TEXTS["named"].items())
def test_name_makes_a_model_without_a_socket(monkeypatch: pytest.MonkeyPatch, name: str, shown: str) -> None:
    refuse: Callable[..., Any] = lambda *_: pytest.fail("a model was asked")  # noqa: E731
    monkeypatch.setattr(socket, "socket", refuse)
    assert repr(create_model(name)) == shown


# Providers that need a key, and its variable.
KEYS = {"openai": "OPENAI_API_KEY", "groq": "GROQ_API_KEY", "gemini": "GEMINI_API_KEY", "huggingface": "HF_TOKEN"}
LOCAL_SERVERS = ("ollama", "lmstudio", "vllm", "llamacpp")


@cases(("provider", "variable"), *KEYS.items(), *((server, "") for server in LOCAL_SERVERS))
def test_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, provider: str, variable: str) -> None:
    model: Any = create_model(f"{provider}:x")
    if variable:
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(MissingAPIKeyError, match=f"needs an API key; set {variable} to it"):
            model.check_access()
        monkeypatch.setenv(variable, "sk-1234")
    # A server of this machine needs none.
    model.check_access()


def test_variable_replaces_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-1234")
    with serving(["hello"]) as server:
        monkeypatch.setenv("GROQ_BASE_URL", server.url)
        # Another provider's address is not taken.
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
        assert create_model("groq:llama").complete(HELLO).content == "hello"
        assert server.asked[0]["model"] == "llama"


UNKNOWN = f"put a provider first, as in 'openai:gpt-5-mini'; the providers are {', '.join(PROVIDERS)}"
TAG = "for the model on this machine, or 'mistral:<model>' with the whole name that mistral uses"
# A name, and the end of the error.
WRONG = {
    **dict.fromkeys(("", "gpt-5-mini", "qwen3:0.6b", "openai/gpt-5", "zzz:model", "opnai:gpt-5", ":7b"), UNKNOWN),
    "openai:": "without a model; write 'openai:<model>', as in 'openai:gpt-5-mini'",
    "Groq": "without a model; write 'groq:<model>', as in 'openai:gpt-5-mini'",
    "azure:gpt-5": "base_url='https://<resource>.openai.azure.com/openai/v1', api_key=...)",
    "bedrock_converse:x": "https://bedrock-runtime.<region>.amazonaws.com/openai/v1', api_key=...)",
    "google_vertexai:x": "write 'gemini:<model>' with a key of the Gemini API",
    "local:other": "which is neither known weights nor a GGUF file; write 'local', or 'local:<path of a GGUF file>'",
    "mistral:7b": f"and 7b looks like the tag of a local model; write 'ollama:mistral:7b' {TAG}",
    "mistral:qwen3:latest": f"and latest looks like the tag of a local model; write 'ollama:qwen3:latest' {TAG}",
}


@cases(("name", "end"), *WRONG.items())
def test_wrong_name_gets_the_remedy(name: str, end: str) -> None:
    with pytest.raises(InputError) as caught:
        create_model(name)
    assert str(caught.value).startswith(f"model is '{name}', ")
    assert str(caught.value).endswith(end)


@given(st.text())
def test_any_name_is_a_model_or_an_input_error(name: str) -> None:
    try:
        provider, model = split_name(name)
    except InputError:
        return
    assert provider in PROVIDERS
    assert model


@given(st.sampled_from(PROVIDERS[:-1]), st.from_regex(r"\A[a-z][a-z0-9./:-]*\Z"))
def test_name_of_a_model_is_kept(provider: str, model: str) -> None:
    assume(not re.search(r"latest|\d[\dx.]*b", model))
    assert split_name(f"{provider}:{model}") == (provider, model)


@cases(("table", "native"), (TEXTS["native"], True), (TEXTS["not_native"], False))
def test_known_models_call_tools(table: str, native: bool) -> None:
    rows = [tuple(one.split()) for one in table.strip().replace("\n", " | ").split(" | ")]
    assert [(provider, name) for provider, name in rows if has_native_tool_calls(provider, name) is not native] == []
    assert not any(has_native_tool_calls(provider, "") for provider in ("", "openai"))


@cases("name", "local", "local:x.gguf", "openai:gpt-5-mini")
def test_sampling_options_are_those_of_every_model(name: str) -> None:
    options: Any = {"temperature": 0.5, "max_tokens": 9, "top_p": 0.9, "seed": 1, "timeout": 3.0}
    model: Any = create_model(name, **options, extra_body={"min_p": 0.1})
    for value in ("0.5", "9", "0.9", "1", "min_p"):
        assert value in model.identity


# Options of a local model, and the error.
NOT_LOCAL = {
    "api_key": r"LocalModel has no option api_key; it is an option of a model at a server: OpenAICompatible\(name, ",
    "sede": r"LocalModel has no option sede; did you mean seed\?",
}


@cases(("option", "error"), *NOT_LOCAL.items())
def test_option_that_a_local_model_lacks_is_refused(option: str, error: str) -> None:
    options: Any = {option: "low"}
    with pytest.raises(InputError, match=error):
        create_model("local", **options)


def test_all_unknown_options_are_reported() -> None:
    create: Any = create_model
    for name in ("openai:gpt-5-mini", "groq:llama"):
        with pytest.raises(InputError, match=r"option seeds; did you mean seed\? .* option size; write Open"):
            create(name, seeds=1, size=3)
        assert create(name, base_url="http://127.0.0.1:9/v1").provider == "127.0.0.1:9"
        assert create(name, base_url=None).provider == name.partition(":")[0]
    assert create("local", context=9).name == "smollm2-135m-instruct"
    with pytest.raises(InputError, match=r"create_model needs name; write create_model\('openai:gpt-5-mini'\)"):
        create()


OWN_SERVER = "http://127.0.0.1:9/v1"
CLOUD = [one for one in PROVIDERS if one not in ("local", *LOCAL_SERVERS)]
# Names that are right: a provider and its model.
RIGHT = """
openai:ft:gpt-4o:org::id openai:o3 openrouter:deepseek/deepseek-r1:free groq:openai/gpt-oss-20b
huggingface:Qwen/Qwen3-8B:nebius nvidia:01-ai/yi-large perplexity:r1-1776 ollama:mistral:7b vllm:7b
"""


@cases("name", *RIGHT.split())
def test_clear_name_is_taken(name: str) -> None:
    provider, _, model = name.partition(":")
    assert split_name(name) == (provider, model)


OWN_NAMES = """
llama3.2:3b mistral mistral:7b deepseek:latest openai:llama3.2:3b someone/mario:7b meta-llama/Llama-3.3-70B-Instruct
ft:gpt-4o-mini:my-org::7p4lURel us.anthropic.claude-sonnet-4-20250514-v1:0 models/mine.gguf opnai:gpt-5
anthropic:claude-sonnet-4-5 azure:gpt-5 gpt-5-mini
"""


@cases("name", *OWN_NAMES.split())
def test_own_server_gets_the_whole_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert make_model(name, OWN_SERVER).model.name == name  # type: ignore[attr-defined]
    if name in ("anthropic:claude-sonnet-4-5", "azure:gpt-5") or name.startswith("openai:"):
        # The variable is that of another provider, or of this one.
        return
    monkeypatch.setenv("OPENAI_BASE_URL", OWN_SERVER)
    chosen = make_model(name, None)
    assert isinstance(chosen.model, OpenAICompatible)
    assert (chosen.model.name, chosen.model.provider) == (name, "127.0.0.1:9")
    assert chosen.name == f"{name} at 127.0.0.1:9"
    assert split_name(name) == ("openai", name)


@cases(
    ("name", "model", "provider"),
    ("ollama:qwen3:8b", "qwen3:8b", "127.0.0.1:11434"),
    ("groq:llama", "llama", "127.0.0.1:10"),
    ("openai:latest", "latest", "127.0.0.1:9"),
    ("local", "smollm2-135m-instruct", "llama.cpp"),
)
def test_named_server_is_kept(monkeypatch: pytest.MonkeyPatch, name: str, model: str, provider: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", OWN_SERVER)
    monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:10")
    made: Any = make_model(name, None).model
    assert (made.name, made.provider) == (model, provider)
    # A provider at its variable takes any name.
    monkeypatch.setenv("MISTRAL_BASE_URL", OWN_SERVER)
    assert split_name("mistral:7b") == ("mistral", "7b")


SIZES = st.from_regex(r"\A(\d{1,3}(\.\d)?|\d{1,2}x\d{1,2})[bB](-(instruct|it|chat|text))?(-q[2-8]_[01K](_[SML])?)?\Z")


@given(st.sampled_from(CLOUD), SIZES)
def test_local_tag_is_never_sent_to_the_cloud(provider: str, tag: str) -> None:
    for name in (f"{provider}:{tag}", f"qwen3:{tag}"):
        with pytest.raises(InputError, match=f"write 'ollama:{re.escape(name)}'"):
            split_name(name if name.startswith(provider) else f"{provider}:{name}")


@given(st.text(), st.sampled_from(["", ":7b", "/x", ":mine"]))
def test_name_alone_is_only_openais(name: str, end: str) -> None:
    try:
        chosen = make_model(name + end, None)
    except InputError:
        return
    provider = str(chosen.full_name).partition(":")[0]
    assert chosen.local or provider == "openai" or find_provider(provider) in PROVIDERS


NOT_A_NAME = "model is .*; give a name, as in 'openai:gpt-5-mini'"
ADDRESS = "model is an address; give the name of the model, and base_url"


@cases(
    ("name", "facts"),
    ("http://me:secret@127.0.0.1:11434/v1", ADDRESS),
    *((name, NOT_A_NAME) for name in (None, 3, b"openai:x", ["openai:x"])),
)
def test_address_and_other_values_are_no_names(name: Any, facts: str) -> None:
    with pytest.raises(InputError, match=facts) as caught:
        create_model(name)
    assert "secret" not in str(caught.value)
