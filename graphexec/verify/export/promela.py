"""A flow in Promela, the language of the model checker SPIN."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

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

_HEADER = """\
/* A machine of graphexec, for SPIN: {claim}.
 *
 *     spin -a {file} && gcc -O1 {compiled}-o pan pan.c && ./pan {run}-m1000000
 *
 * prints `errors: 0` if this holds (if the search depth was too small, raise -m); otherwise `spin -t -p {file}` shows
 * a run for which it does not hold.
 *
 * A label is a node, an option is a transition, and left_... is the amount left of a budget.
 */
"""


def promela(flow: Flow, limits: Limits, *, bound: int | None = None, file: str = "machine.pml") -> str:
    """Return a model whose claim is that every run ends; with `bound`, after at most so many transitions.

    `file` is the name under which it will be stored. With `bound` there is no claim about cycles: after `bound` steps,
    a run has ended or is stuck, which SPIN reports as an invalid end state. The number of states grows up to `bound`
    times, so a bound of a few thousand steps is the practical maximum.

    Raises `LimitsError` for a limit or a bound that is too large for SPIN, and `InputError` for a file name
    that would end the comment.
    """
    if "*/" in file or "\n" in file:
        raise InputError(
            f"the file name {file!r} has */ or a line break, which would end the comment with it; pass another one"
        )
    program = to_guarded_program(flow, limits)
    nodes = [*program.nodes, END.name]
    labels = dict(zip(nodes, make_identifiers("at_", nodes), strict=True))
    left = dict(zip(program.counters, make_identifiers("left_", program.counters), strict=True))
    lines = [f"int {left[name]} = {cap};" for name, cap in program.counters.items()]
    if bound is None:
        claim, compiled, run = "every run ends", "", "-a "
        step, last = "", "ended = true"
        lines.append("bool ended = false;")
    else:
        whole_number("the bound", bound)
        claim, compiled, run = f"every run ends, after at most {bound} steps", "-DSAFETY ", ""
        step, last = "step(); ", "skip"
        # The count stops at the first step beyond the bound, which keeps the number of states small.
        counted = f"steps = (steps > {bound} -> steps : steps + 1); assert(steps <= {bound})"
        lines += ["int steps = 0;", f"inline step() {{ {counted} }}"]
    lines += ["", "active proctype machine()", "{", f"    goto {labels[program.start]};"]
    for node, commands in program.nodes.items():
        lines += ["", f"{labels[node]}:", "    if" if commands else "    false;  /* no transition */"]
        for command in commands:
            after = changes(command, program.counters, left)
            effects = "".join(f"{variable} = {value}; " for variable, value in after.items())
            body = f"{_guard(command, left)}{effects}{step}"
            target = labels[command.transition.target]
            lines += [f"    /* {format_comment(command)} */", f"    :: atomic {{ {body}goto {target} }}"]
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
