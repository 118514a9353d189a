"""The progress that models report: a reply from a cache, a retry, a refused parameter, a fallback, a route, a wait."""

from __future__ import annotations

from dataclasses import dataclass

from graphexec.errors import described


@dataclass(frozen=True, slots=True)
class Cached:
    """The reply came from a cache; the model with the name `model` was not called."""

    model: str

    def __str__(self) -> str:
        return f"{self.model} was not called: its reply was in the cache"


@dataclass(frozen=True, slots=True)
class CacheFailed:
    """A cache could not be read or written because of `error`; the run continues without it."""

    error: Exception

    def __str__(self) -> str:
        return f"the cache failed with {described(self.error)}; the run continues without it"


@dataclass(frozen=True, slots=True)
class Retried:
    """Attempt number `attempt`, counted from 1, failed with `error`; the next one follows after `wait` seconds."""

    error: Exception
    attempt: int
    wait: float

    def __str__(self) -> str:
        return f"attempt {self.attempt} failed with {described(self.error)}; the next one follows in {self.wait:.1f} s"


@dataclass(frozen=True, slots=True)
class OptionRefused:
    """The server refuses a `parameter`, which is not sent any more, or sent under the name `instead`."""

    parameter: str
    instead: str = ""

    def __str__(self) -> str:
        follows = f"{self.instead} is sent instead" if self.instead else "it is not sent any more"
        return f"the server refuses {self.parameter}; {follows}"


@dataclass(frozen=True, slots=True)
class FellBack:
    """A model failed with `error`, so the model with the name `to` is called instead."""

    error: Exception
    to: str

    def __str__(self) -> str:
        return f"a model failed with {described(self.error)}; {self.to} is called instead"


@dataclass(frozen=True, slots=True)
class Routed:
    """The `route` was chosen: the model with the name `to` is called."""

    route: str
    to: str

    def __str__(self) -> str:
        return f"{self.route} was chosen: {self.to} is called"


@dataclass(frozen=True, slots=True)
class Waited:
    """The call waited `seconds` for its turn; `why` is the limit that made it wait, such as `5 per second`."""

    seconds: float
    why: str

    def __str__(self) -> str:
        return f"waited {self.seconds:.1f} s for a turn: {self.why}"
