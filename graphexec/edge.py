"""One transition of a machine, and where the last one leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


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
    """One transition: `outcome` (a class) of the node `source` leads to the node `target`, or to `"END"`."""

    source: str
    outcome: type
    target: str

    def __str__(self) -> str:
        return f"{self.source} --{self.outcome.__name__}--> {self.target}"
