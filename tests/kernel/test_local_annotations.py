"""Nodes whose annotations are strings (PEP 563) and name classes that are local to a function."""

from __future__ import annotations

from graphexec import ITERATIONS, Asks, Effect, Exhausted, ask, node
from tests.drivers import LIVE, make_run_context
from tests.kernel.machines import machine_of, run_machine, value


def test_local_classes_are_resolved() -> None:
    @value
    class Colour(Effect[str]):
        of: str

    @value
    class Wall:
        coats: int

    @value
    class Painted:
        colour: str

    @value
    class Dry:
        colour: str

    @value
    class OutOfPaint:
        wall: Wall | Painted
        limit: Exhausted

    @value
    class Brush:
        width: int

    @node(when_spent=OutOfPaint, meters=[ITERATIONS])
    def paint(wall: Wall, brush: Brush) -> Asks[Colour, Painted]:
        colour = yield from ask(Colour(f"a wall of {brush.width}"))
        return Painted(colour)

    def give_up(painted: Painted, limit: Exhausted) -> OutOfPaint:
        return OutOfPaint(painted, limit)

    @node(when_spent=give_up, opaque=True)
    def dry(painted: Painted) -> Dry:
        return Dry(painted.colour)

    machine = machine_of(paint, dry)
    assert (paint.takes, paint.outcomes, paint.parameters) == ((Wall,), (Painted, OutOfPaint), {"brush": (Brush,)})
    bound = machine.with_settings(Brush(4))
    context = make_run_context({Colour: lambda colour: f"red for {colour.of}"})
    assert run_machine(bound, Wall(1), context, LIVE).outcome == Dry("red for a wall of 4")
