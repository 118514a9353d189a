"""A machine: a graph of the kernel that can be run, verified and drawn.

`graph` and `splice` are those of the kernel, and return a `Machine`. What a method needs is imported when it
is called, so a program that only runs machines does not wait for the pictures.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from graphexec._mistakes import explain_calls, explain_class
from graphexec.kernel.graph import Graph, Table, build
from graphexec.kernel.surgery import splice as splice_graph

if TYPE_CHECKING:
    from pathlib import Path

    import networkx as nx
    from typing_extensions import Unpack

    from graphexec.draw import AnyRun, Marks
    from graphexec.kernel.events import Done, Event
    from graphexec.kernel.meters import Limits
    from graphexec.kernel.node import Node
    from graphexec.kernel.snapshot import Snapshot
    from graphexec.runs.questions import Waiting
    from graphexec.runtime.handlers import AnyMachineSettings, GraphSettings, MachineSettings, StoredMachineSettings
    from graphexec.verify import Verdict

__all__ = ["Machine", "graph", "splice"]

S_contra = TypeVar("S_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)
S = TypeVar("S")
F = TypeVar("F")
G = TypeVar("G")


@final
@explain_class("graph(table, start=node)")
class Machine(Graph[S_contra, F_co]):
    """A graph that can be run, verified and drawn; created by `graph` and by surgery.

    `f"{machine:mermaid}"` draws it (or `dot`, `svg`, `html`, `text`), and `f"{machine}"` lists its edges.
    """

    __slots__ = ()

    def verify(self, limits: Limits | None = None) -> Verdict:
        """Prove that every run ends within `limits` (by default `Limits()`), or find one that does not.

        Raises `LimitsError` for a limit that its meter cannot have.
        """
        from graphexec.verify import verify

        return verify(self, limits)

    def to_networkx(self) -> nx.MultiDiGraph[str]:
        """Return the table as a networkx graph; `graphexec.verify.to_networkx` lists its attributes."""
        from graphexec.verify import to_networkx

        return to_networkx(self)

    @overload
    def run(
        self, value: S_contra | Snapshot, *, allow_nonterminating: bool = False, **options: Unpack[MachineSettings]
    ) -> Done[F_co]: ...
    @overload
    def run(
        self,
        value: S_contra | Snapshot | None,
        *,
        allow_nonterminating: bool = False,
        **options: Unpack[StoredMachineSettings],
    ) -> Done[F_co] | Waiting: ...
    def run(
        self, value: Any, *, allow_nonterminating: bool = False, **options: Unpack[AnyMachineSettings]
    ) -> Done[F_co] | Waiting:
        """Run the machine from `value`, or resume it from a snapshot; return the outcome and the spending.

        `handlers` maps classes of effects to functions that answer them, `{Fetch: function}`, `def` or `async def`.
        Before the first step, the machine is proved to end within `limits` (by default `Limits()`), unless you
        `allow_nonterminating`. Further options are those of `graphexec.runtime.run`, such as the `context` of the run's
        calls, its `run_id`, its `observers`, its `around_call`, and its `host`, the call that it is nested in.

        With a store, `runs=SQLiteRuns("runs.db")`, the run is kept under its `run_id`, continued by the same id (also
        with the value `None`), and returns a `Waiting` where it has to wait; see `AgentExecutor.run`.

        Raises `UnprovedError` without a proof, `InputError` for a value that the first node does not take,
        `MissingHandlerError`, and any exception of a node or a handler; `snapshot_of(error)` is the run's last state.
        """
        from graphexec.runtime.runner import run

        return run(self, value, **self._prove(options, allow_nonterminating=allow_nonterminating))

    @overload
    async def arun(
        self, value: S_contra | Snapshot, *, allow_nonterminating: bool = False, **options: Unpack[MachineSettings]
    ) -> Done[F_co]: ...
    @overload
    async def arun(
        self,
        value: S_contra | Snapshot | None,
        *,
        allow_nonterminating: bool = False,
        **options: Unpack[StoredMachineSettings],
    ) -> Done[F_co] | Waiting: ...
    async def arun(
        self, value: Any, *, allow_nonterminating: bool = False, **options: Unpack[AnyMachineSettings]
    ) -> Done[F_co] | Waiting:
        """Run like `run`, on the running event loop; blocking functions run in threads."""
        from graphexec.runtime.runner import arun

        return await arun(self, value, **self._prove(options, allow_nonterminating=allow_nonterminating))

    def stream(
        self,
        value: S_contra | Snapshot,
        *,
        tokens: bool = False,
        allow_nonterminating: bool = False,
        **options: Unpack[AnyMachineSettings],
    ) -> Generator[Event[F_co], None, None]:
        """Run like `run`, and yield each event; the last one is `Done`. Closing the generator ends the run.

        With `tokens`, models stream their replies if they can, and each piece is an event (`Reported`).
        """
        from graphexec.runtime.runner import stream

        proved = self._prove(options, allow_nonterminating=allow_nonterminating)
        return stream(self, value, tokens=tokens, **proved)

    def astream(
        self,
        value: S_contra | Snapshot,
        *,
        tokens: bool = False,
        allow_nonterminating: bool = False,
        **options: Unpack[AnyMachineSettings],
    ) -> AsyncGenerator[Event[F_co], None]:
        """Run like `stream`, on the running event loop."""
        from graphexec.runtime.runner import astream

        proved = self._prove(options, allow_nonterminating=allow_nonterminating)
        return astream(self, value, tokens=tokens, **proved)

    def _prove(self, options: AnyMachineSettings, *, allow_nonterminating: bool) -> GraphSettings:
        """Return the options with the limits of the proof, and with the proof."""
        verdict = self.verify(options.get("limits"))
        if not allow_nonterminating:
            verdict.require_proof()
        return {**options, "limits": verdict.limits, "proof": verdict.proof}

    def draw(
        self,
        path: str | Path,
        *,
        limits: Limits | None = None,
        format: str | None = None,  # noqa: A002 - the field's word, as in `format(machine, "dot")`
        marks: Marks | None = None,
        runs: AnyRun | Iterable[AnyRun] = (),
    ) -> Path:
        """Write a picture of the machine and its proof to a file, `machine.draw("flow.svg")`; return the path.

        The proof uses `limits`, or else the limits of the runs, or else `Limits()`. The suffix selects the format:
        .svg, .png, .html, .mmd, .dot or .txt. `runs`, such as an executor's results, are drawn over the machine;
        several show how often each edge was taken. Raises `InputError` if the format or the runs cannot be drawn.
        """
        from graphexec.draw import save, subject_for

        return save(subject_for(self, limits, runs), path, format=format, marks=marks, runs=runs)

    def __format__(self, specification: str) -> str:
        from graphexec.draw import draw

        return draw(self, specification) if specification else str(self)


@explain_calls("graph", "graph(edges(node, on(Outcome, target)) | ..., start=node)", {})
def graph(table: Table[F], *, start: Node[S, object]) -> Machine[S, F]:
    """Build the machine. Raises `GraphError` with every fault of the table.

    Each outcome needs exactly one edge, whose target takes it; each node needs exactly one row, a path from the start
    and a path to the end. Names of nodes and outcomes are unique, outcomes are `@final` frozen classes, and a node that
    asks for effects has a `when_spent`, the outcome for a limit that stops it.
    """
    kind: type[Machine[S, F]] = Machine
    return build(kind, table, start)


def splice(
    machine: Machine[S, F],
    table: Table[G],
    *,
    after: Node[Any, Any] | Sequence[Node[Any, Any]],
    on: type | Sequence[type],
) -> Machine[S, F | G]:
    """Insert a node into an edge: the outcome `on` of the node `after` now leads to the first node of `table`.

    `table` has the rows of the new node (or nodes), which may lead to nodes of the machine: `splice(machine,
    edges(guard, on(Paid, ship) | on(Refused, END)), after=charge, on=Paid)`. With several nodes or outcomes,
    `after=[charge, invoice]`, the node is inserted into every edge from one of the nodes for one of the outcomes.

    Raises `GraphError` if there is no such edge, or if the new table is not total. That every run still ends is proved
    where the machine is run.
    """
    # Any: the kernel returns the class that it was given, and does not know this one.
    spliced: Any = splice_graph(machine, table, after=after, on=on)
    changed: Machine[S, F | G] = spliced
    return changed
