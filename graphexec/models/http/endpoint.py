"""Who is asked: a model's name and its server's address, as errors name them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

# Characters of a server's text that an error shows: enough for a sentence or two, less than a page of HTML.
SHOWN = 300
# Characters. A shorter key guards nothing, and is a piece of ordinary words: to hide it would garble them.
SECRET = 8


@dataclass(frozen=True, slots=True)
class Provider:
    """Whose protocol is spoken: its own server's address, the variables of the environment, and words for errors.

    `kind` is whose a base URL must be, `hint` says how one ends, and `example` is one.
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
    """A model at a server. `key` is the API key that it is asked with, and is shown nowhere."""

    model: str
    base_url: str
    key: str = field(default="", repr=False)
    provider: Provider = OPENAI

    def __str__(self) -> str:
        return f"{one_line(self.model)} at {self.shown_url}"

    @property
    def shown_url(self) -> str:
        """The base URL without a name and password in it."""
        return re.sub(r"//[^/@]*@", "//", one_line(self.base_url))

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine, and so asks for no key unless it was told to."""
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
        """Return a server's text in one line of at most 300 printable characters, without the key (of 8 or more)."""
        if len(self.key) >= SECRET:
            text = text.replace(self.key, "***")
        # Cut twice: once so that a huge body costs nothing, once so that the line fits.
        text = one_line(text[: 10 * SHOWN])
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def has_scheme(url: str) -> bool:
    """Whether an address begins with http:// or https://."""
    return url.lower().startswith(("http://", "https://"))


def one_line(text: str) -> str:
    """Return `text` with every run of blanks, line ends and control characters as one blank."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
