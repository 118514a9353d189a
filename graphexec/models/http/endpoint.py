"""A model and the address of its server: as requests need them, and as errors show them."""

from __future__ import annotations

import ipaddress
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from graphexec._parsing import compile_lazily
from graphexec.errors import ReplyLimitError
from graphexec.models.secret import HIDDEN, NO_SECRET, Secret, is_secret_name, redact

# Characters of a server's text that an error shows: enough for one or two sentences, but not for a page of HTML.
SHOWN = 300
# Characters that one character of a key may take in a text in which it is encoded.
_WIDEST = 32

# The user name and password of an address; a password may have an @.
_USERINFO = compile_lazily(r"^([^/?#]*//)?[^/?#]*@")
_PARAMETER = compile_lazily(r"([^&=]*)=[^&]*")


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


# The default of the option `max_reply_bytes`.
REPLY_BYTES = 8 * 2**20
# What else a reply may have: tool calls and other parts, levels of JSON, and brackets and commas, which bound
# the values of a document and take a hundred bytes each in memory; and events, each of which takes 10 microseconds.
# Providers allow about a hundred calls, and replies of a hundred thousand tokens.
MOST = {"calls": 10_000, "depth": 64, "values": 500_000, "events": 200_000}
_WORDS = {
    "bytes": "a reply of more than {:,} bytes",
    "calls": "a reply of more than {:,} tool calls or other parts",
    "depth": "JSON that is nested more than {:,} levels deep",
    "values": "JSON of more than {:,} values",
    "events": "a stream of more than {:,} events",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at a server, and the bytes that its replies may have.

    `base_url` is as errors show it, `key` is its API key, and `others` are further secrets of its requests. `origin` is
    the name of a provider that the address does not tell.
    """

    model: str
    base_url: str
    key: Secret = NO_SECRET
    provider: Provider = OPENAI
    reply_bytes: int = REPLY_BYTES
    others: tuple[Secret, ...] = ()
    origin: str = ""

    def __str__(self) -> str:
        return f"{one_line(self.model)} at {self.base_url}"

    @property
    def provider_name(self) -> str:
        """The name of the provider: a well-known one, such as `openai`, or the server's host and port."""
        return self.origin or provider_name(self.base_url)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets of the requests."""
        return (self.key, *self.others)

    def quote(self, text: str) -> str:
        """Return a server's text as one line of at most 300 printable characters; keys of 8 or more are hidden."""
        # The first cut bounds the work on a huge body. What it leaves of a key is at the end, and cut as well.
        longest = _WIDEST * max(len(secret.get_secret_value()) for secret in self.secrets)
        window = 10 * SHOWN + longest
        redacted = redact(text[:window], self.secrets)
        if len(text) > window:
            redacted = redacted[: len(redacted) - longest]
        text = one_line(redacted[: 10 * SHOWN])
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def reply_limit_error(endpoint: Endpoint, name: str, seen: int, *, status: int = 200) -> ReplyLimitError:
    """Return the error for a reply that exceeds the limit `name`."""
    allowed = MOST.get(name, endpoint.reply_bytes)
    answer = "" if status == 200 else f" with status {status}"  # noqa: PLR2004 - OK, as everywhere
    return ReplyLimitError(
        f"{endpoint} sent {_WORDS[name].format(allowed)}{answer}; check the server"
        f"{', or pass a higher max_reply_bytes' * (name == 'bytes')}",
        status=status,
        limit=name,
        allowed=allowed,
        seen=seen,
    )


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


@dataclass(frozen=True, slots=True)
class Address:
    """The base URL of a server: `url` as errors show it, and what a client needs beside it.

    A user name and a password are sent in the header `authorization`. `query` has the parameters of the URL, which may
    contain a key, and `path` the URL before them. `secrets` are all credentials of the URL.
    """

    url: str
    path: Secret
    query: Secret = NO_SECRET
    authorization: Secret = NO_SECRET
    secrets: tuple[Secret, ...] = ()

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a base URL. Of an invalid one, only the credentials are separated."""
        try:
            parts = urlsplit(url)
            # Raises for a password with a slash, which ends the host.
            parts.port  # noqa: B018
        except ValueError:
            scheme, slashes, rest = url.partition("//")
            return cls(one_line(f"{scheme}{slashes}{rest.rpartition('@')[2]}"), Secret(url))
        parts = parts._replace(path=parts.path.rstrip("/"), fragment="")
        before, at, host = parts.netloc.rpartition("@")
        path = parts._replace(netloc=host, query="").geturl()
        secrets = [Secret(value) for name, value in parse_qsl(parts.query) if is_secret_name(name)]
        authorization = NO_SECRET
        if at:
            user, _, password = (unquote(part) for part in before.partition(":"))
            encoded = b64encode(f"{user}:{password}".encode()).decode()
            authorization = Secret(f"Basic {encoded}")
            secrets += [Secret(encoded), Secret(password or user)]
        query = _PARAMETER().sub(lambda one: f"{one[1]}={HIDDEN}" if is_secret_name(one[1]) else one[0], parts.query)
        shown = one_line(_USERINFO().sub(r"\1", parts._replace(query=query).geturl()))
        return cls(shown, Secret(path), Secret(parts.query), authorization, tuple(secrets))

    def join(self, route: str) -> Secret:
        """Return the URL of a path below the address, with the address's parameters."""
        query = self.query.get_secret_value()
        return Secret(f"{self.path.get_secret_value()}/{route}{'?' if query else ''}{query}")


def proxy_secrets() -> Iterator[Secret]:
    """Yield the credentials in the proxies of the environment: a proxy may repeat them in its errors."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            yield from Address.parse(os.environ.get(variable, "")).secrets


def is_local(base_url: str) -> bool:
    """Return whether a server is on this machine: at a loopback address, or at `localhost` or a name below it."""
    try:
        host = (urlsplit(base_url).hostname or "").rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def has_scheme(url: str) -> bool:
    """Return whether an address begins with http:// or https://."""
    return url.lower().startswith(("http://", "https://"))


def one_line(text: str) -> str:
    """Return `text` with every sequence of whitespace and control characters replaced by one space."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
