"""Models: OpenAI-compatible servers, OpenAI's Responses API, Anthropic, local models, and scripted models for tests.

Any model can be wrapped by `cached`, `retrying`, `with_fallbacks`, `routed`, `rate_limited` and `priced`, in any order.

The import loads neither httpx nor llama.cpp; the first call does.
"""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.models.bridges.openai import from_openai
    from graphexec.models.bridges.pydantic_ai import from_pydantic_ai
    from graphexec.models.functions import FunctionModel, ModelFunction
    from graphexec.models.http.attempts import Clock
    from graphexec.models.http.remote import ModelOptions
    from graphexec.models.local.model import LocalModel
    from graphexec.models.local.weights import Weights, installed, pull, weights_path
    from graphexec.models.naming import create_model
    from graphexec.models.progress_reports import Cached, CacheFailed, FellBack, OptionRefused, Retried, Routed, Waited
    from graphexec.models.providers.anthropic import Anthropic
    from graphexec.models.providers.openai_compatible import OpenAICompatible
    from graphexec.models.providers.openai_responses import OpenAIResponses
    from graphexec.models.scripted import ScriptedModel
    from graphexec.models.secret import Secret
    from graphexec.models.wrappers.caching import CacheStore, SQLiteCache, cached
    from graphexec.models.wrappers.rate_limits import rate_limited
    from graphexec.models.wrappers.retries import retrying, with_fallbacks
    from graphexec.models.wrappers.routing import routed
    from graphexec.models.wrappers.wrapping import Price, WrappedModel, priced

__all__ = ["Anthropic", "LocalModel", "ModelOptions", "OpenAICompatible", "OpenAIResponses", "Secret", "create_model"]
__all__ += ["FunctionModel", "ModelFunction", "ScriptedModel", "from_openai", "from_pydantic_ai"]
__all__ += ["CacheStore", "Clock", "Price", "SQLiteCache", "WrappedModel"]
__all__ += ["cached", "priced", "rate_limited", "retrying", "routed", "with_fallbacks"]
__all__ += ["CacheFailed", "Cached", "FellBack", "OptionRefused", "Retried", "Routed", "Waited"]
__all__ += ["Weights", "installed", "pull", "weights_path"]

# Where these names are. A module is imported when one of its names is first used: a program needs few of the providers.
_MODULES = {
    "graphexec.models.bridges.openai": "from_openai",
    "graphexec.models.bridges.pydantic_ai": "from_pydantic_ai",
    "graphexec.models.functions": "FunctionModel ModelFunction",
    "graphexec.models.http.attempts": "Clock",
    "graphexec.models.http.remote": "ModelOptions",
    "graphexec.models.local.model": "LocalModel",
    "graphexec.models.local.weights": "Weights installed pull weights_path",
    "graphexec.models.naming": "create_model",
    "graphexec.models.progress_reports": "Cached CacheFailed FellBack OptionRefused Retried Routed Waited",
    "graphexec.models.providers.anthropic": "Anthropic",
    "graphexec.models.providers.openai_compatible": "OpenAICompatible",
    "graphexec.models.providers.openai_responses": "OpenAIResponses",
    "graphexec.models.scripted": "ScriptedModel",
    "graphexec.models.secret": "Secret",
    "graphexec.models.wrappers.caching": "CacheStore SQLiteCache cached",
    "graphexec.models.wrappers.rate_limits": "rate_limited",
    "graphexec.models.wrappers.retries": "retrying with_fallbacks",
    "graphexec.models.wrappers.routing": "routed",
    "graphexec.models.wrappers.wrapping": "Price WrappedModel priced",
}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES)
