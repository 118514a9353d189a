"""What a run waits for, in words."""

from __future__ import annotations

from typing import Any

from graphexec.cli.terminal import clean
from graphexec.effects import AskHuman, CallAgent, CallModel, CallTool
from graphexec.kernel.effects import All, Effect, Perform, Request


def asked(request: Request) -> str:
    """What is waited for: each kind once, however many of it are asked for at a time."""
    effects = request.effects if isinstance(request, All) else (request,)
    tools = [effect.name for effect in effects if isinstance(effect, CallTool)]
    told = [f"calling {', '.join(tools)}"] if tools else []
    told += [_told(effect) for effect in effects if not isinstance(effect, CallTool)]
    return clean(", ".join(dict.fromkeys(told)))


# Any: an effect's reply is whatever it asks for.
def _told(effect: Effect[Any]) -> str:
    match effect:
        case CallModel():
            return "asking the model"
        case CallAgent():
            return "asking the agent"
        case AskHuman():
            return "asking a person"
        case Perform(node):
            return f"running {node}"
        case _:
            return f"asking for {type(effect).__name__}"
