"""Models: OpenAI-compatible servers, OpenAI's Responses, Anthropic, a local one, and a scripted one for tests.

Each may be wrapped: `cached`, `retrying`, `with_fallbacks`, `rate_limited`, `priced`, in any order.

Loads neither httpx nor llama.cpp; the first call does.
"""

from graphexec.models.anthropic import Anthropic
from graphexec.models.attempts import Clock
from graphexec.models.caches import CacheStore, MemoryCache, SQLiteCache
from graphexec.models.caching import cached
from graphexec.models.fallbacks import with_fallbacks
from graphexec.models.local import LocalModel
from graphexec.models.notices import Cached, CacheFailed, FellBack, Retried, Waited
from graphexec.models.openai_compatible import OpenAICompatible
from graphexec.models.openai_responses import OpenAIResponses
from graphexec.models.prices import Price, priced
from graphexec.models.rate_limits import rate_limited
from graphexec.models.retries import retrying
from graphexec.models.scripted import ScriptedModel
from graphexec.models.weights import Weights, installed, pull, weights_path
from graphexec.models.wrapping import WrappedModel

__all__ = [
    "Anthropic",
    "CacheFailed",
    "CacheStore",
    "Cached",
    "Clock",
    "FellBack",
    "LocalModel",
    "MemoryCache",
    "OpenAICompatible",
    "OpenAIResponses",
    "Price",
    "Retried",
    "SQLiteCache",
    "ScriptedModel",
    "Waited",
    "Weights",
    "WrappedModel",
    "cached",
    "installed",
    "priced",
    "pull",
    "rate_limited",
    "retrying",
    "weights_path",
    "with_fallbacks",
]
