"""Models named by a string such as `openai:gpt-5-mini`: the providers, and which models call tools natively."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphexec._mistakes import explain_calls
from graphexec.errors import InputError, format_value
from graphexec.messages import Model
from graphexec.models.http.endpoint import OPENAI, has_scheme, provider_name
from graphexec.models.http.remote import ModelOptions
from graphexec.models.local.model import LocalModel
from graphexec.models.local.weights import CATALOGUE, DEFAULT
from graphexec.models.provider_names import (
    ADDRESS_REMEDIES,
    EXAMPLE,
    LOCAL,
    PROVIDERS,
    SERVERS,
    address_variable,
    find_provider,
    is_own_server,
)
from graphexec.models.providers.anthropic import Anthropic
from graphexec.models.providers.openai_compatible import OpenAICompatible
from graphexec.models.providers.openai_responses import OpenAIResponses

if TYPE_CHECKING:
    from typing_extensions import Unpack


@explain_calls("create_model", "create_model('openai:gpt-5-mini')", {})
def create_model(name: str, **options: Unpack[ModelOptions]) -> Model:
    """Return the model that a string names, such as `openai:gpt-5-mini`, `anthropic:claude-sonnet-4-5` or `local`.

    Before the colon stands the provider, after it the provider's own name of the model. `local` is the small model on
    this machine, `local:<file>` a GGUF file. The key is read from the variable of the provider, such as `GROQ_API_KEY`,
    and a variable such as `GROQ_BASE_URL` replaces its address. With `OPENAI_BASE_URL`, a name without a provider, such
    as `llama3.2:3b`, is that of a model of this server. The `options` are those of the model's class, such as
    `OpenAICompatible`; a `LocalModel` has no `api_key`, `extra_headers` and `max_retries`. Nothing is loaded, and no
    server is called.

    Raises `InputError` for an unknown provider, a missing name and an invalid option, and for a name such as
    `mistral:7b`, which is that of a local model rather than of the provider's. For an unknown option it is a
    `SignatureError`.
    """
    provider, model = split_name(name)
    if provider == LOCAL:
        return _local_model(model, options)
    if provider in _CLASSES:
        return _CLASSES[provider](model, **options)
    url, key = SERVERS[provider]
    variable = address_variable(provider)
    server = dataclasses.replace(OPENAI, url=url, base_url_variable=variable, key_variable=key, example=url)
    return OpenAICompatible.at_provider(model, server, **options)


_CLASSES = {"openai": OpenAICompatible, "openai-responses": OpenAIResponses, "anthropic": Anthropic}


# Any: the class checks the options.
def _local_model(name: str, options: Mapping[str, Any]) -> Model:
    if name in CATALOGUE:
        return LocalModel(model=name, **options)
    # A path, whether the file is there or not: the first call says if it is missing.
    if name.endswith(".gguf") or Path(name).is_file():
        return LocalModel(name, **options)
    fact = f"model is 'local:{name}', which is neither known weights nor a GGUF file"
    raise InputError(f"{fact}; write 'local', or 'local:<path of a GGUF file>'")


# The end of a model's name in Ollama's library: a size, with anything after it, or `latest`.
_LOCAL_TAG = re.compile(r"(?!ft:)(?:[^/]*:)?(?:latest|\d[\dx.]*b(?:-[^:/]*)?)", re.IGNORECASE)


def split_name(name: str) -> tuple[str, str]:
    """Return the provider, as in `PROVIDERS`, and the model of a name. Raises `InputError` with the remedy.

    With `OPENAI_BASE_URL`, a name without a provider is that of a model of this server.
    """
    # Users without a type checker pass other values.
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"model is {format_value(name)}; give a name, as in {EXAMPLE}")
    before, colon, model = (part.strip() for part in name.partition(":"))
    provider, fact = find_provider(before), f"model is {format_value(name)}"
    if provider == LOCAL:
        return LOCAL, model or DEFAULT
    # A prompt for a model on this machine must not leave it by mistake.
    is_tag = provider in PROVIDERS and not is_own_server(provider) and _LOCAL_TAG.fullmatch(model) is not None
    if provider in PROVIDERS and model and not is_tag:
        return provider, model
    own_server = os.environ.get(OPENAI.base_url_variable)
    if provider in PROVIDERS and not model and (colon or not own_server):
        raise InputError(f"{fact}, without a model; write '{provider}:<model>', as in {EXAMPLE}")
    if provider in ADDRESS_REMEDIES and colon:
        raise InputError(f"{fact}, and {before} needs an address of its own; write {ADDRESS_REMEDIES[provider]}")
    if has_scheme(name.strip()):
        # The address may contain a password.
        raise InputError("model is an address; give the name of the model, and base_url=... to OpenAICompatible")
    if name.strip() and own_server:
        return "openai", name.strip()
    if is_tag:
        local_name = model if ":" in model else f"{before}:{model}"
        raise InputError(
            f"{fact}, and {model.rpartition(':')[2]} looks like the tag of a local model; write 'ollama:{local_name}' "
            f"for the model on this machine, or '{provider}:<model>' with the whole name that {provider} uses"
        )
    remedy = f"put a provider first, as in {EXAMPLE}; the providers are {', '.join(PROVIDERS)}"
    raise InputError(f"{fact}, without a known provider; {remedy}")


# Patterns of models that call tools natively, by provider, after the providers' pages of models and function calling.
_NATIVE = {
    "openai": (
        r"(?!.*(instruct|realtime|audio|search|transcribe|tts|image|o1-mini|o1-preview))"
        r"(ft:)?(gpt-(3\.5-turbo|[4-9]|\d\d)|o\d|codex)"
    ),
    "anthropic": r"claude-(?!1|2|instant)",
    "gemini": r"gemini-(?!embedding|1\.0|.*(image|tts|live))",
    "mistral": (
        r"(mistral|ministral|devstral|magistral|pixtral|codestral)-(?!embed|ocr|moderation|mamba)"
        r"|open-(mistral-nemo|mixtral-8x22b)"
    ),
    "deepseek": r"deepseek-(chat|reasoner|v)",
    "xai": r"grok-(?!.*(image|vision))",
    "moonshot": r"kimi-|moonshot-v1",
    "cohere": r"command-(a|r)",
    "vertexai": r"gemini-(?!embedding|1\.0|.*(image|tts|live))|claude-(?!1|2|instant)",
    "bedrock": (
        r"([a-z]{2,6}\.)?(anthropic\.claude-(?!v|instant)|amazon\.nova-|cohere\.command-r|meta\.llama(3-[1-9]|4)"
        r"|mistral\.(mistral-large|pixtral|magistral))"
    ),
}
# Families of open weights whose chat templates have tools (Ollama's library lists them under "tools").
_OPEN = (
    r"(.*/)?(gpt-oss|(meta-)?llama-?(3\.[13]|4)|qwen-?(2\.5|3)|qwq|mistral|mixtral|ministral|devstral|magistral"
    r"|command-[ar]|kimi-k|glm-?4|deepseek-(chat|v3)|granite-?[34]|hermes)"
)
# The servers that read their calls without further settings; vLLM and llama.cpp need options for it.
_OPEN_SERVERS = {
    *("groq", "openrouter", "together", "fireworks", "cerebras", "nvidia", "dashscope", "huggingface"),
    *("ollama", "lmstudio"),
}
# Billions of parameters. Smaller models often write their calls as text, or none: on a model of 0.5, none was native.
_MIN_BILLIONS = 7.0


def has_native_tool_calls(provider: str, name: str) -> bool:
    """Return whether a model is known to call tools natively.

    `provider` is one of `PROVIDERS`, or what `model.provider` says: a name of OpenTelemetry's, or a host and port.
    """
    known = _BY_ADDRESS.get(provider.replace("localhost", "127.0.0.1")) or find_provider(provider)
    known = "openai" if known in ("openai-responses", "azureopenai") else known
    if known in _NATIVE:
        return _matches(_NATIVE[known], name)
    if known not in _OPEN_SERVERS:
        return False
    # OpenRouter and others write `anthropic/claude-sonnet-4.5`.
    maker, slash, model = name.partition("/")
    if slash and _matches(_NATIVE.get(find_provider(maker), "(?!)"), model):
        return True
    size = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b\b", name, re.IGNORECASE)
    return _matches(_OPEN, name) and (size is None or float(size[1]) >= _MIN_BILLIONS)


def _matches(pattern: str, name: str) -> bool:
    return re.match(pattern, name, re.IGNORECASE) is not None


# The names that `model.provider` has for servers without one of OpenTelemetry's.
_BY_ADDRESS = {provider_name(url): provider for provider, (url, _) in SERVERS.items()}
