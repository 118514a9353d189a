"""Suggestions for names of models that have no known provider.

If the name may be that of a model on the user's machine, such a model is suggested, too: never the cloud alone.
"""

from __future__ import annotations

import re

from graphexec.errors import close_names
from graphexec.models.local.weights import suggest_weights
from graphexec.models.provider_names import ADDRESS_REMEDIES, EXAMPLE, PROVIDERS, find_provider

# The beginnings of models' names, and the providers that serve them. Ollama has the open weights.
_FAMILIES = {
    r"gpt-oss|(code|tiny)?llama|qwen|qwq|gemma|phi|granite|smollm|mixtral": ("ollama",),
    r"(ft:)?(gpt-|o\d|chatgpt|codex)": ("openai",),
    r"claude": ("anthropic",),
    r"gemini": ("gemini",),
    r"mistral|ministral|codestral|devstral|magistral|pixtral": ("ollama", "mistral"),
    r"deepseek": ("ollama", "deepseek"),
    r"grok": ("xai",),
    r"command": ("ollama", "cohere"),
    r"kimi": ("ollama", "moonshot"),
}
# The beginnings of paths, as one provider alone writes them.
_PATHS = {"hf.co/": "ollama", "huggingface.co/": "ollama", "accounts/fireworks/": "fireworks"}
# Providers that are also the makers of models, which others serve under `maker/model`.
_MAKERS = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai", "cohere", "moonshot", "nvidia")

# The tags of local models, as in Ollama's library: sizes (`7b`, `8x7b`, `e4b-it`) and versions (`v0.3`), with anything
# after them, and words (`latest`), with a quantization after them.
_QUANTIZATION = r"(i?q\d\w*|b?fp?\d+|int\d|awq|gptq|mlx)"
_TAG = re.compile(
    r"[ve]?\d+(\.\d+)*(x\d+(\.\d+)*)?[bmkt]?([-_.:][^\s/]*)?"
    rf"|((latest|instruct|text|chat|base|cloud|r\d)([-_]|\Z))?({_QUANTIZATION}([-_]\w+)*)?",
    re.IGNORECASE,
)
# OpenRouter's variants of a model.
_VARIANT = re.compile(r":(free|nitro|floor|online|thinking|extended|beta|exacto)\Z", re.IGNORECASE)
# Amazon's names: `us.anthropic.claude-sonnet-4-20250514-v1:0`.
_BEDROCK = re.compile(
    r"arn:aws:bedrock:|([a-z]{2,6}\.)?(ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen|writer)\.[a-z]",
    re.IGNORECASE,
)
# Ratios of `difflib`. "opnai" is similar to a provider (0.91), "mistral-nemo" (0.74) is not.
_SIMILAR, _LIKELY = 0.6, 0.8


def _is_tag(text: str) -> bool:
    """Return whether the part of a name after a colon is the tag of a local model, such as `7b` or `latest`."""
    return bool(text) and _TAG.fullmatch(text) is not None


def find_local_name(provider: str, model: str) -> str | None:
    """Return the local model that `provider:model` probably means, such as `mistral:7b` or `llama3.2:3b`; else `None`.

    The names of a provider in the cloud have no such tag after a colon, but those of OpenAI's fine-tuned models have
    other parts, and those with a slash are the names of a maker's models at a host.
    """
    if _is_tag(model):
        return f"{provider}:{model}"
    family, _, tag = model.rpartition(":")
    return model if family and _is_tag(tag) and "/" not in model and not model.startswith("ft:") else None


def find_family(name: str) -> tuple[str, ...]:
    """Return the providers that serve models whose names begin like this one."""
    found = (providers for start, providers in _FAMILIES.items() if re.match(start, name, re.IGNORECASE))
    return next(found, ())


def find_address_owner(name: str) -> str | None:
    """Return the provider of a name that needs an address of each customer's own, as in `ADDRESS_REMEDIES`, if any."""
    for before in (name.partition("/")[0], name.partition(":")[0]):
        owner = find_provider(before)
        if before != name and owner in ADDRESS_REMEDIES:
            return owner
    return "bedrock" if _BEDROCK.match(name) else None


def explain_name(name: str) -> str:
    """Return what is wrong with a name that has no known provider, and what to write: the end of a sentence."""
    fact = "without a known provider"
    slash = "/" in name
    if not name:
        return f"{fact}; write the provider and the model, as in {EXAMPLE}"
    if (owner := find_address_owner(name)) is not None:
        return f"{fact}; write {ADDRESS_REMEDIES[owner]}"
    if suggested := suggest_names(name):
        quoted = " or ".join(f"'{suggestion}'" for suggestion in suggested)
        return f"{fact}; did you mean {quoted}?"
    if slash:
        servers = f"'vllm:{name}', 'huggingface:{name}' or 'openrouter:{name}'"
        return f"{fact}; put the name of the server first, as in {servers}"
    return f"{fact}; put a provider first, as in {EXAMPLE}; the providers are {', '.join(PROVIDERS)}"


def suggest_names(name: str) -> tuple[str, ...]:
    """Return a name without a known provider as it is probably meant; nothing if there is no guess."""
    before, colon, tag = name.partition(":")
    if name.lower().endswith(".gguf"):
        return (f"local:{name}",)
    if "/" in before:
        return _suggest_for_path(name)
    if before and _is_tag(tag):
        return (f"ollama:{name}",)
    if colon and not name.startswith("ft:"):
        return _suggest_for_pair(before, tag)
    if ours := suggest_weights(name):
        return (f"local:{ours}",)
    return tuple(f"{provider}:{name}" for provider in find_family(name))


def _suggest_for_path(name: str) -> tuple[str, ...]:
    """Return the suggestions for `maker/model`, or for `provider/model`, as other libraries write it."""
    before, _, model = name.partition("/")
    provider, family = find_provider(before), find_family(model)
    if server := next((server for start, server in _PATHS.items() if name.startswith(start)), None):
        return (f"{server}:{name}",)
    if _VARIANT.search(name):
        return (f"openrouter:{name.removeprefix('openrouter/')}",)
    # The makers of open weights have another name where those are published, such as `mistralai`.
    own = family == (provider,) or (provider in family and before == provider)
    if provider in PROVIDERS and model and (provider not in _MAKERS or own):
        return (f"{provider}:{model}",)
    if _is_tag(name.partition(":")[2]):
        return (f"ollama:{name}",)
    ours = suggest_weights(name)
    return () if ours is None else (f"local:{ours}",)


def _suggest_for_pair(before: str, model: str) -> tuple[str, ...]:
    """Return the suggestions for `before:model`: a misspelt provider, or a local model with a tag of its own."""
    meant = bool(find_family(model))
    close = close_names(before.lower(), PROVIDERS, cutoff=_SIMILAR if meant else _LIKELY)
    if not meant and find_family(before):
        return (f"ollama:{before}:{model}",)
    return (f"{close[0]}:{model}",) if close and model else ()
