"""A flow in Promela, the language of the model checker SPIN."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from graphexec.errors import InputError
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END
from graphexec.verify.export.guarded import Command, changes, guarded, identifiers, remark, whole_number
from graphexec.verify.proof.flow import Flow

_HEADER = """\
/* A machine of graphexec, for SPIN: {claim}.
 *
 *     spin -a {file} && gcc -O1 {compiled}-o pan pan.c && ./pan {run}-m1000000
 *
 * says `errors: 0` if that is so (unless the search depth was too small: then give -m more), and otherwise
 * `spin -t -p {file}` shows a run for which it is not.
 *
 * A label is a node, an option a transition, left_... what is left of a budget.
 */
"""


def promela(flow: Flow, limits: Limits, *, bound: int | None = None, file: str = "machine.pml") -> str:
    """Return a model whose claim is that every run ends; with `bound`, after at most so many transitions.

    `file` is the name under which it will be stored. With `bound` there is no claim about cycles: a run that is over
    after `bound` steps has ended or is stuck, which SPIN reports as an invalid end state. The states are then up to
    `bound` times as many: some thousand steps are the most.

    Raises `LimitsError` for a limit or a bound that is too large for SPIN, and `InputError` for a name that would end
    the comment.
    """
    if "*/" in file or "\n" in file:
        raise InputError(f"{file!r} cannot name a file in a comment; give the name without its folder")
    program = guarded(flow, limits)
    nodes = [*program.nodes, END.name]
    labels = dict(zip(nodes, identifiers("at_", nodes), strict=True))
    left = dict(zip(program.counters, identifiers("left_", program.counters), strict=True))
    lines = [f"int {left[name]} = {cap};" for name, cap in program.counters.items()]
    if bound is None:
        claim, compiled, run = "every run ends", "", "-a "
        step, last = "", "ended = true"
        lines.append("bool ended = false;")
    else:
        whole_number("the bound", bound)
        claim, compiled, run = f"every run ends, after at most {bound} steps", "-DSAFETY ", ""
        step, last = "step(); ", "skip"
        # The count stops at the first step too many, so that a run that SPIN is told to follow on has few states.
        counted = f"steps = (steps > {bound} -> steps : steps + 1); assert(steps <= {bound})"
        lines += ["int steps = 0;", f"inline step() {{ {counted} }}"]
    lines += ["", "active proctype machine()", "{", f"    goto {labels[program.start]};"]
    for node, commands in program.nodes.items():
        lines += ["", f"{labels[node]}:", "    if" if commands else "    false;  /* no way on */"]
        for command in commands:
            after = changes(command, program.counters, left)
            effects = "".join(f"{variable} = {value}; " for variable, value in after.items())
            body = f"{_guard(command, left)}{effects}{step}"
            target = labels[command.transition.target]
            lines += [f"    /* {remark(command)} */", f"    :: atomic {{ {body}goto {target} }}"]
        if commands:
            lines.append("    fi;")
    lines += ["", f"{labels[END.name]}:", f"    {last}", "}"]
    if bound is None:
        lines += ["", "ltl every_run_ends { <> ended }"]
    return "\n".join([_HEADER.format(claim=claim, compiled=compiled, run=run, file=shlex.quote(file)), *lines]) + "\n"


def _guard(command: Command, left: Mapping[str, str]) -> str:
    parts = [f"{left[name]} >= {amount}" for name, amount in command.takes]
    if command.empty:
        parts.append(f"({' || '.join(f'{left[name]} == 0' for name in command.empty)})")
    return f"{' && '.join(parts)} -> " if parts else ""
