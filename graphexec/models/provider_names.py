"""The providers that a model's name may begin with: their addresses, their keys, and other names for them."""

from __future__ import annotations

import os
import re

LOCAL = "local"

# Providers that serve OpenAI's chat completions at an address of their own, as their documentation gives it: the
# address and the variable of the key. A server on this machine usually needs no key.
SERVERS = {
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
PROVIDERS = ("openai", "openai-responses", "anthropic", *SERVERS, LOCAL)

# Names that other libraries give to the same providers.
_ALIASES = {
    alias: provider
    for provider, aliases in {
        "anthropic": "claude",
        "azureopenai": "azure azureaiopenai",
        "bedrock": "bedrockconverse amazonbedrock amazonbedrockconverse",
        "fireworks": "fireworksai",
        "gemini": "gcpgemini google googlegenai googlegenerativeai googlegla",
        "huggingface": "hf",
        "mistral": "mistralai",
        "moonshot": "moonshotai",
        "together": "togetherai",
        "vertexai": "vertex googlevertexai googlevertex googlecloud",
        "vllm": "hostedvllm",
        "xai": "grok",
    }.items()
    for alias in aliases.split()
}

# Providers that need more than a name and a key, and what to write for them.
ADDRESS_REMEDIES = {
    "azureopenai": (
        "OpenAICompatible(deployment, base_url='https://<resource>.openai.azure.com/openai/v1', api_key=...)"
    ),
    "bedrock": (
        "OpenAICompatible(name, base_url='https://bedrock-runtime.<region>.amazonaws.com/openai/v1', api_key=...)"
    ),
    "vertexai": "'gemini:<model>' with a key of the Gemini API",
}

EXAMPLE = "'openai:gpt-5-mini'"


def find_provider(name: str) -> str:
    """Return the provider of a name in any spelling, as in `PROVIDERS` or `ADDRESS_REMEDIES`.

    An unknown name is returned in lower case, with its letters and digits only.
    """
    plain = _plain(name)
    known = {_plain(provider): provider for provider in (*PROVIDERS, *ADDRESS_REMEDIES)}
    # LangChain's types of models are called `anthropic-chat` and `chat-ollama`.
    found = (_ALIASES.get(one, one) for one in (plain, plain.removeprefix("chat").removesuffix("chat")))
    return next((known[one] for one in found if one in known), plain)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def address_variable(provider: str) -> str:
    """Return the environment variable that replaces the address of a provider."""
    return f"{provider.removesuffix('-responses').replace('-', '_').upper()}_BASE_URL"


def is_own_server(provider: str) -> bool:
    """Return whether a provider is on this machine, or at an address that the user has set in its variable."""
    url, _ = SERVERS.get(provider, ("", ""))
    here = provider == LOCAL or url.startswith("http://127.0.0.1:")
    return here or bool(os.environ.get(address_variable(provider)))
