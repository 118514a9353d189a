"""Names of models as people write them: what they stand for, what to write instead, and which server gets them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.runs.options import make_model
from graphexec.errors import InputError
from graphexec.models import LocalModel, OpenAICompatible, create_model
from graphexec.models.naming import has_provider, split_name
from graphexec.models.provider_names import ADDRESS_REMEDIES, PROVIDERS, SERVERS
from tests.parameters import cases

OWN_SERVER = "http://127.0.0.1:9/v1"
CLOUD = [one for one in PROVIDERS if one not in ("local", "ollama", "lmstudio", "vllm", "llamacpp")]
OPEN_WEIGHTS = "'vllm:{0}' 'huggingface:{0}' 'openrouter:{0}'"
BEDROCK = "'https://bedrock-runtime.<region>.amazonaws.com/openai/v1'"

# A name, and the names in quotes that the error has.
REFUSED = {
    # Ollama's.
    "llama3.2": "'ollama:llama3.2'",
    "llama3.2:3b": "'ollama:llama3.2:3b'",
    "llama3.2:3b-instruct-q4_K_M": "'ollama:llama3.2:3b-instruct-q4_K_M'",
    "mistral": "'mistral:<model>' 'openai:gpt-5-mini' 'ollama:mistral'",
    "mistral:7b": "'ollama:mistral:7b' 'mistral:<model>'",
    "mistral:latest": "'ollama:mistral:latest' 'mistral:<model>'",
    "mistral:instruct": "'ollama:mistral:instruct' 'mistral:<model>'",
    "Mistral:7B-Instruct-v0.3": "'ollama:Mistral:7B-Instruct-v0.3' 'mistral:<model>'",
    "deepseek:v3.1": "'ollama:deepseek:v3.1' 'deepseek:<model>'",
    "grok:4": "'ollama:grok:4' 'xai:<model>'",
    "claude:3.5-sonnet": "'ollama:claude:3.5-sonnet' 'anthropic:<model>'",
    "openai:llama3.2:3b": "'ollama:llama3.2:3b' 'openai:<model>'",
    "deepseek:deepseek-r1:7b": "'ollama:deepseek-r1:7b' 'deepseek:<model>'",
    "groq:gpt-oss:20b": "'ollama:gpt-oss:20b' 'groq:<model>'",
    "openai:20b": "'ollama:openai:20b' 'openai:<model>'",
    "mixtral:8x7b": "'ollama:mixtral:8x7b'",
    "mistral-nemo:12b": "'ollama:mistral-nemo:12b'",
    "mistral-nemo:mine": "'ollama:mistral-nemo:mine'",
    "magistral:mine": "'ollama:magistral:mine'",
    "deepseek-r1:7b": "'ollama:deepseek-r1:7b'",
    "deepseek-r1:1.5b-qwen-distill-q4_K_M": "'ollama:deepseek-r1:1.5b-qwen-distill-q4_K_M'",
    "gemma3n:e4b": "'ollama:gemma3n:e4b'",
    "gpt-oss:120b-cloud": "'ollama:gpt-oss:120b-cloud'",
    "smollm2:135m": "'ollama:smollm2:135m'",
    "my-tune:latest": "'ollama:my-tune:latest'",
    "someone/mario:7b": "'ollama:someone/mario:7b'",
    "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M": ("'ollama:hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M'"),
    # Open weights of a maker in the cloud.
    "deepseek-r1": "'ollama:deepseek-r1' 'deepseek:deepseek-r1'",
    "mistral-small-latest": "'ollama:mistral-small-latest' 'mistral:mistral-small-latest'",
    # Hugging Face's.
    "meta-llama/Llama-3.3-70B-Instruct": OPEN_WEIGHTS.format("meta-llama/Llama-3.3-70B-Instruct"),
    "mistralai/Mistral-7B-Instruct-v0.3": OPEN_WEIGHTS.format("mistralai/Mistral-7B-Instruct-v0.3"),
    "Qwen/Qwen3-8B": OPEN_WEIGHTS.format("Qwen/Qwen3-8B"),
    "google/gemma-3-27b-it": OPEN_WEIGHTS.format("google/gemma-3-27b-it"),
    "openai/gpt-oss-20b": OPEN_WEIGHTS.format("openai/gpt-oss-20b"),
    "deepseek-ai/DeepSeek-R1": OPEN_WEIGHTS.format("deepseek-ai/DeepSeek-R1"),
    "HuggingFaceTB/SmolLM2-135M-Instruct": "'local:smollm2-135m-instruct'",
    # OpenRouter's and LiteLLM's.
    "deepseek/deepseek-r1:free": "'openrouter:deepseek/deepseek-r1:free'",
    "openrouter/anthropic/claude-3.5-sonnet:beta": "'openrouter:anthropic/claude-3.5-sonnet:beta'",
    "x-ai/grok-4": "'xai:grok-4'",
    "ollama/llama3.2:3b": "'ollama:llama3.2:3b'",
    "ollama_chat/qwen3": "'ollama:qwen3'",
    "groq/llama-3.3-70b-versatile": "'groq:llama-3.3-70b-versatile'",
    "together_ai/meta-llama/Llama-3-8b": "'together:meta-llama/Llama-3-8b'",
    "accounts/fireworks/models/llama-v3p1-8b": "'fireworks:accounts/fireworks/models/llama-v3p1-8b'",
    "vertex_ai/gemini-2.5-pro": "'gemini:<model>'",
    # Deployments and fine-tuned models.
    "ft:gpt-4o-mini:my-org::7p4lURel": "'openai:ft:gpt-4o-mini:my-org::7p4lURel'",
    "anthropic.claude-3-5-sonnet-20240620-v1:0": BEDROCK,
    "us.anthropic.claude-sonnet-4-20250514-v1:0": BEDROCK,
    "bedrock/anthropic.claude-3-haiku-20240307-v1:0": BEDROCK,
    "arn:aws:bedrock:us-east-1:1:inference-profile/x": BEDROCK,
    "azure/my-deployment": "'https://<resource>.openai.azure.com/openai/v1'",
    "my-deployment": "'openai:gpt-5-mini'",
    # Files and slips of the pen.
    "models/mine.gguf": "'local:models/mine.gguf'",
    r"C:\models\mine.gguf": r"'local:C:\models\mine.gguf'",
    "gemni:gemini-2.5-pro": "'gemini:gemini-2.5-pro'",
    "mistrall:mistral-large-latest": "'mistral:mistral-large-latest'",
    "olama:qwen3": "'ollama:qwen3'",
    ":7b": "'openai:gpt-5-mini'",
}
# A name that is right, with its provider and its model.
RIGHT = {
    "openai:ft:gpt-4o:org::id": ("openai", "ft:gpt-4o:org::id"),
    "openai:o3": ("openai", "o3"),
    "openrouter:deepseek/deepseek-r1:free": ("openrouter", "deepseek/deepseek-r1:free"),
    "groq:openai/gpt-oss-20b": ("groq", "openai/gpt-oss-20b"),
    "huggingface:Qwen/Qwen3-8B:nebius": ("huggingface", "Qwen/Qwen3-8B:nebius"),
    "nvidia:01-ai/yi-large": ("nvidia", "01-ai/yi-large"),
    "perplexity:r1-1776": ("perplexity", "r1-1776"),
    "ollama:mistral:7b": ("ollama", "mistral:7b"),
    "vllm:7b": ("vllm", "7b"),
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS:
        monkeypatch.delenv(f"{provider.upper()}_BASE_URL", raising=False)


@cases("name", REFUSED)
def test_unclear_name_is_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        create_model(name)
    text = str(caught.value).removeprefix(f"model is {name!r}, ")
    assert re.findall(r"'[^']+'", text) == re.findall(r"'[^']+'", REFUSED[name])


@cases("name", REFUSED)
def test_suggested_name_is_a_model(name: str) -> None:
    for written in re.findall(r"'([^']+)'", REFUSED[name]):
        if "<" not in written:
            create_model(written)


@cases("name", RIGHT)
def test_clear_name_is_taken(name: str) -> None:
    assert split_name(name) == RIGHT[name]


@cases("name", [*REFUSED, "anthropic:claude-sonnet-4-5", "azure:gpt-5", "gpt-5-mini"])
def test_own_server_gets_the_whole_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert make_model(name, OWN_SERVER, None).model.name == name  # type: ignore[attr-defined]
    if name in ("anthropic:claude-sonnet-4-5", "azure:gpt-5") or name.startswith("openai:"):
        # The variable is that of another provider, or of this one.
        return
    monkeypatch.setenv("OPENAI_BASE_URL", OWN_SERVER)
    chosen = make_model(name, None, None)
    assert isinstance(chosen.model, OpenAICompatible)
    assert (chosen.model.name, chosen.model.provider) == (name, "127.0.0.1:9")
    assert chosen.name == f"{name} at 127.0.0.1:9"
    assert split_name(name) == ("openai", name)


def test_named_server_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", OWN_SERVER)
    monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:10")
    found = {name: make_model(name, None, None).model for name in ("ollama:qwen3:8b", "groq:llama", "openai:latest")}
    assert [(one.name, one.provider) for one in found.values()] == [  # type: ignore[attr-defined]
        ("qwen3:8b", "127.0.0.1:11434"),
        ("llama", "127.0.0.1:10"),
        ("latest", "127.0.0.1:9"),
    ]
    assert isinstance(make_model("local", None, None).model, LocalModel)


def test_provider_at_its_variable_takes_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
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
        chosen = make_model(name + end, None, None)
    except UsageError:
        return
    provider = str(chosen.full_name).partition(":")[0]
    assert chosen.local or provider == "openai" or has_provider(name + end)


def test_address_is_not_a_name() -> None:
    with pytest.raises(InputError, match="model is an address; give the name of the model, and base_url") as caught:
        create_model("http://me:secret@127.0.0.1:11434/v1")
    assert "secret" not in str(caught.value)


@cases("name", [None, 3, b"openai:x", ["openai:x"]])
def test_other_value_is_not_a_name(name: object) -> None:
    with pytest.raises(InputError, match=r"model is .*; give a name, as in 'openai:gpt-5-mini'"):
        create_model(name)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_every_provider_has_one_address() -> None:
    assert set(SERVERS) < set(PROVIDERS)
    assert not set(ADDRESS_REMEDIES) & set(PROVIDERS)
