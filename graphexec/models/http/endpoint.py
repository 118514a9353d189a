"""The name of a model and the address of its server, as errors show them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from graphexec.models.http.receiving import REPLY_LIMITS, ReplyLimits

# Characters of a server's text that an error shows: enough for one or two sentences, but not for a page of HTML.
SHOWN = 300
# Characters. Shorter keys are not hidden: they are no secret, and may be parts of ordinary words.
SECRET = 8


@dataclass(frozen=True, slots=True)
class Provider:
    """The provider of a protocol: the address of its server, its environment variables, and words for errors.

    In errors, `kind` names the servers that a base URL may belong to, `hint` says how a base URL ends, and `example` is
    a base URL.
    """

    url: str
    base_url_variable: str
    key_variable: str
    kind: str
    hint: str
    example: str


OPENAI = Provider(
    "https://api.openai.com/v1",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    kind="an OpenAI-compatible server's",
    hint="which usually ends in /v1",
    example="http://127.0.0.1:8080/v1",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at a server, and the limits of its replies. `key` is the API key, which is never shown."""

    model: str
    base_url: str
    key: str = field(default="", repr=False)
    provider: Provider = OPENAI
    limits: ReplyLimits = REPLY_LIMITS

    def __str__(self) -> str:
        return f"{one_line(self.model)} at {self.shown_url}"

    @property
    def provider_name(self) -> str:
        """The name of the provider: a well-known one, such as `openai`, or the server's host and port."""
        return provider_name(self.base_url)

    @property
    def shown_url(self) -> str:
        """The base URL without a user name and password."""
        return re.sub(r"//[^/@]*@", "//", one_line(self.base_url))

    @property
    def is_local(self) -> bool:
        """True if the server runs on this machine; such a server usually needs no API key."""
        try:
            host = urlsplit(self.base_url).hostname or ""
        except ValueError:
            return False
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified

    def quote(self, text: str) -> str:
        """Return a server's text as one line of at most 300 printable characters; keys of 8 or more are hidden."""
        if len(self.key) >= SECRET:
            text = text.replace(self.key, "***")
        # The first cut bounds the work on a huge body, the second one the length of the line.
        text = one_line(text[: 10 * SHOWN])
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


# The names of providers in OpenTelemetry's semantic conventions for generative AI (`gen_ai.provider.name`), by the end
# of the server's host. The conventions have no name for OpenRouter.
_PROVIDER_NAMES = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "openrouter.ai": "openrouter",
}


def provider_name(base_url: str) -> str:
    """Return the name of the provider at an address: a well-known one, or the host and port without a password."""
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    for end, name in _PROVIDER_NAMES.items():
        if host == end or host.endswith((f".{end}", f"-{end}")):
            return name
    return host if port is None else f"{host}:{port}"


def has_scheme(url: str) -> bool:
    """Return whether an address begins with http:// or https://."""
    return url.lower().startswith(("http://", "https://"))


def one_line(text: str) -> str:
    """Return `text` with every sequence of whitespace and control characters replaced by one space."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
