"""Every machine of the package and of the examples is proved, and its bound is the longest run that there is."""

import runpy
from pathlib import Path
from typing import Any

from graphexec import Graph, Limits
from graphexec.verify import check
from graphexec.verify.explorer.stub_nodes import explore_table
from tests.parameters import cases

_generate = runpy.run_path(str(Path(__file__).parents[2] / "diagrams" / "generate.py"), run_name="generate")
MACHINES: dict[str, Graph[Any, Any]] = dict(_generate["machines"]())


@cases("iterations", [0, 1, 3, 15])
@cases("name", MACHINES)
def test_each_machine_is_proved_and_reaches_its_bound(name: str, iterations: int) -> None:
    machine = MACHINES[name]
    limits = Limits(iterations=iterations)
    verdict = machine.verify(limits)
    assert verdict.proved, verdict
    assert verdict.certificate is not None
    check(verdict.certificate, machine)
    found = explore_table(machine, limits, ranks=verdict.certificate.ranks)
    bounds = verdict.certificate.bounds
    assert bounds.transitions.exact
    assert found.longest == bounds.transitions.number == bounds.transitions.value
    assert found.model_calls is not None
    assert bounds.model_calls.number is None or found.model_calls <= bounds.model_calls.number
    assert not [never for never in found.never_taken if machine[never.edge.source].metered and iterations]
