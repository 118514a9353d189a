"""Convert a flow under given limits to guarded commands (Dijkstra, 1975), the common form of the exports."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphexec.errors import LimitsError, format_value
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END
from graphexec.verify.proof.flow import Flow, Transition, caps_of, limits_of, possible_transitions
from graphexec.verify.proof.ranking import rank_nodes

# The measure of a node's first visit. A lower one gives the same runs, but shorter ones.
FIRST_MEASURE = 2

# The integers of SPIN and TLC have 32 bits. One value is kept for the first step beyond the bound.
_MOST = 2**31 - 2


@dataclass(frozen=True, slots=True)
class Command:
    """A transition that is enabled if all of `takes` are left and, unless `empty` is empty, one of its counters is 0.

    It subtracts `takes`, then resets what the transition does. `causes` are the transition's causes that have a limit.
    """

    transition: Transition
    causes: tuple[str, ...]
    takes: tuple[tuple[str, int], ...]
    empty: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GuardedProgram:
    """The counters with their limits (their initial values), and the commands of each node. Runs end at `END`.

    Where the limits alone do not end every run, the measures of nodes are counters, too: each starts at
    `FIRST_MEASURE`, and a visit with nothing left of it ends the run, as an error does.
    """

    start: str
    nodes: Mapping[str, Sequence[Command]]
    counters: Mapping[str, int]


def to_guarded_program(flow: Flow, limits: Limits) -> GuardedProgram:
    """Return the program whose runs are the walks of the flow that the limits allow.

    Transitions whose causes have no limit are left out, and budgets without a limit are not counted. A cause that is
    not counted, such as `seconds`, can occur at any time. Raises `LimitsError` for a limit that is too large for a
    model checker.
    """
    known = limits_of(flow, limits)
    caps = {name: cap for name, cap in caps_of(flow, known).items() if cap is not None}
    errors: tuple[Transition, ...] = ()
    if flow.measures and isinstance(rank_nodes(flow.nodes, possible_transitions(flow, known), caps), list):
        errors = flow.measure_errors
        caps |= dict.fromkeys(flow.measures, FIRST_MEASURE + 1)
    limited = {name for name, limit in known.items() if limit is not None}
    found = [command for each in flow.transitions if (command := _command(each, caps, limited))]
    found += [Command(one, one.causes, (), one.causes) for one in errors]
    used = {name for command in found for name in (*dict(command.takes), *command.empty)}
    counters = {name: whole_number(f"the limit {name}", cap) for name, cap in caps.items() if name in used}
    joined = [name for command in found for name in (command.transition.source, command.transition.target)]
    nodes: dict[str, list[Command]] = {name: [] for name in (flow.start, *flow.nodes, *joined) if name != END.name}
    for command in found:
        nodes[command.transition.source].append(command)
    return GuardedProgram(flow.start, nodes, counters)


def _command(transition: Transition, caps: Mapping[str, int], limited: set[str]) -> Command | None:
    causes = tuple(name for name in transition.causes if name in limited)
    if transition.kind != "move" and not causes:
        return None
    takes = tuple((name, amount) for name, amount in transition.spends if name in caps and amount)
    if any(amount > caps[name] for name, amount in takes):
        return None
    at_zero = transition.kind == "gate" and all(name in caps for name in causes)
    return Command(transition, causes, takes, causes if at_zero else ())


def whole_number(subject: str, number: int) -> int:
    """Return the number, or raise `LimitsError` if a model checker could not count to it."""
    if not 0 <= number <= _MOST:
        raise LimitsError(
            f"{subject} is {format_value(number)}, which is too large for model checkers; use at most {_MOST}"
        )
    return number


def make_identifiers(prefix: str, names: Iterable[str]) -> list[str]:
    """Return a unique identifier for each name: the prefix, then its ASCII letters, digits and underscores.

    The prefix avoids keywords, and SPIN's labels that begin with end, progress or accept.
    """
    identifiers: dict[str, None] = {}
    for name in names:
        plain = prefix + re.sub(r"[^A-Za-z0-9]", "_", name)
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        identifiers[next(one for one in itertools.chain((plain,), numbered) if one not in identifiers)] = None
    return list(identifiers)


def changes(command: Command, counters: Mapping[str, int], left: Mapping[str, str]) -> dict[str, str]:
    """Return the new values of the variables `left` that a command changes."""
    taken = {left[name]: f"{left[name]} - {amount}" for name, amount in command.takes}
    return taken | {left[name]: str(cap) for name, cap in counters.items() if name in command.transition.resets}


def format_comment(command: Command) -> str:
    """Return the comment on a command: the transition and its kind, in printable ASCII that cannot end a comment."""
    transition = command.transition
    kind = "" if transition.kind == "move" else f" ({transition.kind}: {', '.join(command.causes)})"
    return ascii(f"{transition}{kind}")[1:-1].replace("*/", "* /")
