"""Pieces that take or return a class which no agent's machine has."""

from __future__ import annotations

from dataclasses import dataclass

from graphexec import create_agent, node
from graphexec.executor import Acted
from graphexec.models import ScriptedModel


@dataclass(frozen=True)
class Foreign:
    """An outcome of another machine."""


@node
def take_foreign(foreign: Foreign) -> Acted:
    raise AssertionError(foreign)


@node
def return_foreign(acted: Acted) -> Foreign:
    raise AssertionError(acted)


@node
def pass_on(acted: Acted) -> Acted:
    return acted


executor = create_agent(ScriptedModel([]), [])
executor.plug(take_foreign)  # error: mypy arg-type, pyright reportArgumentType
executor.plug(return_foreign)  # error: mypy arg-type, pyright reportArgumentType
executor.plug(pass_on)
