"""A run needs a value that its first node takes, and every setting bound."""

from dataclasses import dataclass
from typing import final

from graphexec import END, Snapshot, begin, edges, graph, node, on
from graphexec.errors import InputError
from graphexec.kernel import bind
from tests.kernel.machines import DIAMOND, Even, Number, Odd, Total, error_message


@final
@dataclass(frozen=True)
class Metric:
    pass


@final
@dataclass(frozen=True)
class Imperial:
    pass


@node
def measure(number: Even | Odd, units: Metric | Imperial) -> Total:
    return Total(f"{number.value} {type(units).__name__}")


MEASURING = graph(edges(measure, on(Total, END)), start=measure)


def test_run_begins_with_a_value_and_settings() -> None:
    assert begin(DIAMOND, Number(3)) == Snapshot("split", Number(3))
    assert error_message(InputError, begin, DIAMOND, Even(3)) == "split takes Number, not Even; start the run with one"
    bound = bind(MEASURING, Metric())
    assert (
        error_message(InputError, begin, bound, Number(3))
        == "measure takes Even | Odd, not Number; start the run with one"
    )
    assert begin(bound, Odd(3)).value == Odd(3)
    assert error_message(InputError, begin, MEASURING, Odd(3)) == (
        "measure needs a Metric | Imperial for units; run bind(machine, ...) with one"
    )
