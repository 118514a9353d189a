"""The piece of a memory: a node that loads it before the agent's first decision, and one that saves it at the end.

Endings always carry their run: a user's node may leave it out, and the engine's value has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakSet

from graphexec.actions import NO_RUN, AgentFinish, Run, StoppedResponse, run_of
from graphexec.effects import LoadMemory, SaveMemory
from graphexec.executor.inputs import InputKeys, to_outputs
from graphexec.executor.nodes import check_return_direct, generate_response, parse, parse_or_raise, stopped_response
from graphexec.executor.outcomes import Ready, limit_reached
from graphexec.executor.plugging.piece import Piece
from graphexec.executor.result import Ending
from graphexec.kernel.effects import Asks, ask
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import Node, node
from graphexec.kernel.surgery import same, wrap_function

# Functions whose endings always have their run: those of the executor's own nodes, and those that are wrapped already,
# since surgery derives machines from machines.
attaching: WeakSet[Callable[..., Any]] = WeakSet(
    stock.function for stock in (parse, parse_or_raise, check_return_direct, stopped_response, generate_response)
)

# Seconds that a save has beyond the deadline, so that a run stopped by its deadline is saved, too. This is enough for a
# line in a file or a row in a local database, and too short for the caller to notice.
GRACE = 0.1


@final
@dataclass(frozen=True, slots=True)
class NotSaved:
    """A limit was used up before the ending was saved."""

    ending: Ending
    limit: Exhausted

    @property
    def run(self) -> Run:
        """The run that ended."""
        return self.ending.run


@node(when_spent=limit_reached, asks=1)
def load_memory(ready: Ready, keys: InputKeys) -> Asks[LoadMemory, Ready]:
    """Add the memory's values to the inputs; inputs that the caller passed take precedence."""
    loaded = yield from ask(LoadMemory(ready.run.inputs))
    inputs = {**loaded, **ready.run.inputs}
    keys.require(*inputs)
    return Ready(dataclasses.replace(ready.run, inputs=inputs))


@node(when_spent=NotSaved, asks=1, grace=GRACE)
def save_memory(ending: AgentFinish | StoppedResponse) -> Asks[SaveMemory, AgentFinish | StoppedResponse]:
    """Save the ending to the memory, and return it unchanged."""
    yield from ask(SaveMemory(ending.run.inputs, to_outputs(ending)))
    return ending


@node
def return_unsaved(not_saved: NotSaved) -> AgentFinish | StoppedResponse:
    """Return the ending unchanged, though it was not saved."""
    return not_saved.ending


def memory_piece(nodes: Sequence[Node[Any, Any]]) -> Piece:
    """Return the piece that loads and saves a memory in the machine with these nodes.

    It is the first one that a run meets, and the last. If a node of the machine asks for `LoadMemory` or `SaveMemory`,
    it serves in the place of the piece's.
    """
    # The nodes of an embedded agent, such as `research.load_memory`, serve that agent's runs.
    asked = {effect for one in nodes if "." not in one.name for effect in one.effects}
    own: list[Node[Any, Any]] = [] if LoadMemory in asked else [load_memory]
    if SaveMemory not in asked:
        longest = max((one.grace or 0.0 for one in nodes), default=0.0)
        own += [dataclasses.replace(save_memory, grace=longest + GRACE), return_unsaved]
    return Piece("memory", tuple(own), once=True)


def is_save_node(name: str) -> bool:
    """Return whether the node of this name saves the ending of a run, or comes after the save."""
    return name in (save_memory.name, return_unsaved.name)


def attach_run(source: Node[Any, Any]) -> Node[Any, Any]:
    """Return the node with a function that adds the run of its value to an ending without one.

    A node that returns no ending stays as it is.
    """
    ends = source.inner is None and {AgentFinish, StoppedResponse} & {*source.returns}
    if not ends or source.function in attaching:
        return source
    wrapper = wrap_function(source, same, _with_run)
    attaching.add(wrapper)
    return dataclasses.replace(source, function=wrapper)


def _with_run(outcome: object, value: object) -> object:
    run = run_of(value)
    if run is None or not isinstance(outcome, (AgentFinish, StoppedResponse)) or outcome.run != NO_RUN:
        return outcome
    return dataclasses.replace(outcome, run=run)
