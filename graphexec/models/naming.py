"""Models named by a string such as `openai:gpt-5-mini`: the providers, and which models call tools natively."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphexec.errors import InputError, close_names, did_you_mean, format_value
from graphexec.messages import Model
from graphexec.models.http.endpoint import OPENAI, Provider, provider_name
from graphexec.models.http.remote import ModelOptions
from graphexec.models.local.model import LocalModel
from graphexec.models.local.weights import CATALOGUE, DEFAULT, suggest_weights
from graphexec.models.providers.anthropic import Anthropic
from graphexec.models.providers.openai_compatible import OpenAICompatible
from graphexec.models.providers.openai_responses import OpenAIResponses

if TYPE_CHECKING:
    from typing_extensions import Unpack

LOCAL = "local"

# Providers that serve OpenAI's chat completions at an address of their own, as their documentation gives it: the
# address and the variable of the key. A server on this machine usually needs no key.
_SERVERS = {
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "perplexity": ("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "nvidia": ("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "moonshot": ("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "cohere": ("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "dashscope": ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "huggingface": ("https://router.huggingface.co/v1", "HF_TOKEN"),
    "ollama": ("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY"),
    "lmstudio": ("http://127.0.0.1:1234/v1", "LMSTUDIO_API_KEY"),
    "vllm": ("http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
    "llamacpp": ("http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY"),
}
PROVIDERS = ("openai", "openai-responses", "anthropic", *_SERVERS, LOCAL)

# Names that other libraries give to the same providers.
_ALIASES = {
    # OpenTelemetry's name, which `model.provider` has.
    "azureaiopenai": "azureopenai",
    "azure": "azureopenai",
    "claude": "anthropic",
    "fireworksai": "fireworks",
    "gcpgemini": "gemini",
    "google": "gemini",
    "googlegenai": "gemini",
    "googlegla": "gemini",
    "grok": "xai",
    "hf": "huggingface",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "openaichat": "openai",
    "togetherai": "together",
    "vertex": "vertexai",
    "googlevertexai": "vertexai",
    "googlevertex": "vertexai",
    "bedrockconverse": "bedrock",
}

# Providers that need more than a name and a key, and what to write for them.
_ELSEWHERE = {
    "azureopenai": (
        "OpenAICompatible(deployment, base_url='https://<resource>.openai.azure.com/openai/v1', api_key=...)"
    ),
    "bedrock": (
        "OpenAICompatible(name, base_url='https://bedrock-runtime.<region>.amazonaws.com/openai/v1', api_key=...)"
    ),
    "vertexai": "'gemini:<model>' with a key of the Gemini API",
}

# The beginnings of models' names, and the provider that serves them.
_BEGINNINGS = {
    r"gpt-oss|llama|qwen|gemma|phi|granite|smollm|mixtral": "ollama",
    r"gpt-|o\d|chatgpt|codex": "openai",
    r"claude": "anthropic",
    r"gemini": "gemini",
    r"mistral|ministral|codestral|devstral|magistral|pixtral": "mistral",
    r"deepseek": "deepseek",
    r"grok": "xai",
    r"command": "cohere",
    r"kimi": "moonshot",
}

_EXAMPLE = "'openai:gpt-5-mini'"


def create_model(name: str, **options: Unpack[ModelOptions]) -> Model:
    """Return the model that a string names, such as `openai:gpt-5-mini`, `anthropic:claude-sonnet-4-5` or `local`.

    Before the colon stands the provider, after it the provider's own name of the model. `local` is the small model on
    this machine, `local:<file>` a GGUF file. The key is read from the variable of the provider, such as `GROQ_API_KEY`,
    and a variable such as `GROQ_BASE_URL` replaces its address. The `options` are those of `OpenAICompatible`; a local
    model has `temperature`, `max_tokens` and `timeout`. Nothing is loaded, and no server is called.

    Raises `InputError` for an unknown provider, a missing name and an invalid option.
    """
    allowed = _LOCAL_OPTIONS if split_name(name)[0] == LOCAL else tuple(ModelOptions.__annotations__)
    unknown = [option for option in options if option not in allowed]
    if unknown:
        near = did_you_mean(unknown[0], allowed, f"the options are {', '.join(allowed)}")
        raise InputError(f"the model {name} has no option {unknown[0]}; {near}")
    provider, model = split_name(name)
    match provider:
        case "local":
            return _local_model(model, options)
        case "openai":
            return OpenAICompatible(model, **options)
        case "openai-responses":
            return OpenAIResponses(model, **options)
        case "anthropic":
            return Anthropic(model, **options)
        case _:
            return OpenAICompatible.at_provider(model, _server(provider), **options)


def _server(provider: str) -> Provider:
    url, key_variable = _SERVERS[provider]
    return dataclasses.replace(
        OPENAI, url=url, base_url_variable=f"{provider.upper()}_BASE_URL", key_variable=key_variable, example=url
    )


_LOCAL_OPTIONS = ("temperature", "max_tokens", "timeout")


# Any: the options have been checked, and each class checks their values.
def _local_model(name: str, options: Mapping[str, Any]) -> Model:
    if name in CATALOGUE:
        return LocalModel(model=name, **options)
    # A path, whether the file is there or not: the first call says if it is missing.
    if name.endswith(".gguf") or Path(name).is_file():
        return LocalModel(name, **options)
    close = suggest_weights(name)
    hint = f"did you mean 'local:{close}'?" if close else "write 'local', or 'local:<path of a GGUF file>'"
    raise InputError(f"model is 'local:{name}', which is neither known weights nor a GGUF file; {hint}")


def has_provider(name: str) -> bool:
    """Return whether a name begins with a known provider and a colon, or is `local`."""
    provider, colon, _ = name.partition(":")
    return name.strip() == LOCAL or (bool(colon) and _find_provider(provider) in (*PROVIDERS, *_ELSEWHERE))


def split_name(name: str) -> tuple[str, str]:
    """Return the provider, as in `PROVIDERS`, and the model of a name. Raises `InputError` with the remedy."""
    before, colon, model = (part.strip() for part in name.partition(":"))
    provider, shown = _find_provider(before), f"model is {format_value(name)}"
    if provider in _ELSEWHERE:
        raise InputError(f"{shown}, and {before} needs an address of its own; write {_ELSEWHERE[provider]}")
    if provider == LOCAL:
        return LOCAL, model or DEFAULT
    if provider in PROVIDERS and not model:
        raise InputError(f"{shown}, without a model; write '{provider}:<model>', as in {_EXAMPLE}")
    if provider in PROVIDERS:
        return provider, model
    if colon and (close := close_names(before.lower(), PROVIDERS)):
        raise InputError(f"{shown}, and {before} is not a known provider; did you mean '{close[0]}:{model}'?")
    if suggested := suggest_name(name):
        raise InputError(f"{shown}, without a known provider; did you mean '{suggested}'?")
    if not name.strip():
        raise InputError(f"{shown}, without a known provider; write the provider and the model, as in {_EXAMPLE}")
    known = f"the providers are {', '.join(PROVIDERS)}"
    raise InputError(f"{shown}, without a known provider; write it before the model, as in {_EXAMPLE}; {known}")


def _find_provider(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    known = {re.sub(r"[^a-z0-9]", "", one): one for one in PROVIDERS}
    return known.get(_ALIASES.get(plain, plain), _ALIASES.get(plain, plain))


def suggest_name(name: str) -> str | None:
    """Return a name without a provider as it is probably meant, or `None`."""
    name = name.strip()
    # As other libraries write it; it may also be a model of OpenRouter.
    before, slash, model = name.partition("/")
    if slash and model and _find_provider(before) in PROVIDERS:
        return f"{_find_provider(before)}:{model}"
    if ours := suggest_weights(name):
        return f"local:{ours}"
    found = (f"{provider}:{name}" for beginning, provider in _BEGINNINGS.items() if _matches(beginning, name))
    return next(found, None)


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
_LEAST = 7.0


def calls_tools(provider: str, name: str) -> bool:
    """Return whether a model is known to call tools natively.

    `provider` is one of `PROVIDERS`, or what `model.provider` says: a name of OpenTelemetry's, or a host and port.
    """
    known = _BY_ADDRESS.get(provider.replace("localhost", "127.0.0.1")) or _find_provider(provider)
    known = "openai" if known in ("openai-responses", "azureopenai") else known
    if known in _NATIVE:
        return _matches(_NATIVE[known], name)
    if known not in _OPEN_SERVERS:
        return False
    # OpenRouter and others write `anthropic/claude-sonnet-4.5`.
    maker, slash, model = name.partition("/")
    if slash and _matches(_NATIVE.get(_find_provider(maker), "(?!)"), model):
        return True
    size = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b\b", name, re.IGNORECASE)
    return _matches(_OPEN, name) and (size is None or float(size[1]) >= _LEAST)


def _matches(pattern: str, name: str) -> bool:
    return re.match(pattern, name, re.IGNORECASE) is not None


# The names that `model.provider` has for servers without one of OpenTelemetry's.
_BY_ADDRESS = {provider_name(url): provider for provider, (url, _) in _SERVERS.items()}
