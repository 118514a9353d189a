"""One transition of a machine, and where the last one leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from graphexec.kernel.meters import Budget


@final
class End:
    """Where a run ends: the target of an edge whose outcome is the run's result."""

    __slots__ = ()
    name = "END"

    def __repr__(self) -> str:
        return self.name


END = End()


@dataclass(frozen=True, slots=True)
class Edge:
    """One transition: `outcome` (a class) of the node `source` leads to the node `target`, or to `"END"`.

    The budgets that it `resets` are full again when it is taken.
    """

    source: str
    outcome: type
    target: str
    resets: tuple[Budget, ...] = ()

    def __str__(self) -> str:
        again = f" ({', '.join(map(str, self.resets))} again)" if self.resets else ""
        return f"{self.source} --{self.outcome.__name__}{again}--> {self.target}"
