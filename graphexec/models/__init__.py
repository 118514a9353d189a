"""Models: OpenAI-compatible servers, a local one without an account, and a scripted one for tests.

Loads neither httpx nor llama.cpp; the first call does.
"""

from graphexec.models.attempts import Clock
from graphexec.models.local import LocalModel
from graphexec.models.openai_compatible import OpenAICompatible
from graphexec.models.scripted import ScriptedModel
from graphexec.models.weights import Weights, installed, pull, weights_path

__all__ = [
    "Clock",
    "LocalModel",
    "OpenAICompatible",
    "ScriptedModel",
    "Weights",
    "installed",
    "pull",
    "weights_path",
]
