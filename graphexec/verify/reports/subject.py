"""The subject of a report: a machine under the name by which it was asked for, and the places of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphexec.kernel.node import Node
from graphexec.kernel.signatures import unwrap_function
from graphexec.verify.proof.findings import Finding, Verdict

# A verdict's status, or that there was nothing to come to one about.
SubjectStatus: TypeAlias = Literal["proved", "refuted", "unproved", "error"]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a source file, as Python knows it: the file's whole path, and the line's number from 1."""

    file: str
    line: int

    @property
    def whole(self) -> str:
        """The file's whole path, with `/` on every system."""
        return self.file.replace("\\", "/")

    def within(self, root: str) -> str:
        """The file's path from the folder `root`; the whole path where it is not below it, or `root` is empty."""
        top = root.replace("\\", "/").rstrip("/")
        return self.whole.removeprefix(f"{top}/") if top else self.whole

    def inside(self, root: str) -> bool:
        """Return whether the file is below `root` and somebody's own: an environment in that folder is installed."""
        installed = {"site-packages", "dist-packages"} & set(self.whole.split("/"))
        return self.within(root) != self.whole and not installed


@dataclass(frozen=True, slots=True)
class Subject:
    """A target that was checked, by name, and what was found.

    `verdict` is `None` where the table was refused when it was built, or where loading failed, with this `error`.
    `place` is where that was, or the machine is; it stands for nodes that have no place of their own.
    """

    name: str
    findings: tuple[Finding, ...]
    verdict: Verdict | None = None
    place: SourceLocation | None = None
    error: str | None = None

    @property
    def status(self) -> SubjectStatus:
        """The verdict's; a table that cannot be built is refuted."""
        if self.error is not None:
            return "error"
        return "refuted" if self.verdict is None else self.verdict.status

    def node(self, name: str | None) -> Node[Any, Any] | None:
        """The machine's node of that name, where there is a machine and it has one."""
        return None if self.verdict is None or name is None else self.verdict.graph.nodes.get(name)

    def place_of(self, finding: Finding, root: str) -> SourceLocation | None:
        """Return the place of the finding's node, or of another node of its loop, or else of the machine.

        A function outside the folder `root`, such as a library's, is not the user's to mend; what is inside it is.
        """
        loop = () if finding.witness is None else finding.witness.loop
        return self._place([finding.node, *(step.source for step in loop)], root)

    def place_of_node(self, name: str | None, root: str) -> SourceLocation | None:
        """Return the place of the node's function, or of the machine, if only that is inside `root`."""
        return self._place([name], root)

    def _place(self, names: Sequence[str | None], root: str) -> SourceLocation | None:
        nodes = [node for node in map(self.node, names) if node is not None]
        places = [*(place_of(node.function) for node in nodes), self.place]
        known = [place for place in places if place is not None]
        inside = [place for place in known if place.inside(root)]
        return next(iter([*inside, *known]), None)


def subject_of(name: str, verdict: Verdict, place: SourceLocation | None = None) -> Subject:
    """Return the subject of a verdict."""
    return Subject(name, verdict.findings, verdict, place)


def status_of(subjects: Sequence[Subject]) -> SubjectStatus:
    """The status of several: an error if one is, else refuted if one is, else unproved if one is."""
    severity: tuple[SubjectStatus, ...] = ("proved", "unproved", "refuted", "error")
    statuses: list[SubjectStatus] = ["proved", *(subject.status for subject in subjects)]
    return max(statuses, key=severity.index)


def place_of(function: Callable[..., Any]) -> SourceLocation | None:
    """Return the place of a function, its first decorator included; `None` for what was not written in Python."""
    code = getattr(unwrap_function(function), "__code__", None)
    return None if code is None else SourceLocation(code.co_filename, code.co_firstlineno)


def qualified(function: Callable[..., Any]) -> str:
    """The whole name of a function, its module's before it."""
    written = unwrap_function(function)
    name = getattr(written, "__qualname__", type(written).__name__)
    return f"{getattr(written, '__module__', '')}.{name}".removeprefix(".")
