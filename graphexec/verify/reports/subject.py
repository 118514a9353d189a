"""The subject of a report: a checked machine, its name, and the source locations of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphexec.kernel.node import Node
from graphexec.kernel.signatures import unwrap_function
from graphexec.verify.proof.findings import Finding, Verdict

# The status of a verdict, or `error` if there is no verdict.
SubjectStatus: TypeAlias = Literal["proved", "refuted", "unproved", "error"]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a source file: the file's absolute path, and the line number from 1."""

    file: str
    line: int

    @property
    def whole(self) -> str:
        """The file's absolute path, with `/` on every system."""
        return self.file.replace("\\", "/")

    def within(self, root: str) -> str:
        """Return the path relative to the folder `root`, or the absolute path if it is not inside `root`."""
        top = root.replace("\\", "/").rstrip("/")
        return self.whole.removeprefix(f"{top}/") if top else self.whole

    def is_inside(self, root: str) -> bool:
        """Return whether the file is inside `root`, but not in an installed package of an environment there."""
        installed = {"site-packages", "dist-packages"} & set(self.whole.split("/"))
        return self.within(root) != self.whole and not installed


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the runs of a graph that another library runs, instead of a verdict.

    `text` says it in the words of that library, and `notes` what else a reader should know; `data` is JSON data.
    `places` are the locations of nodes.
    """

    status: SubjectStatus
    text: str
    notes: tuple[str, ...]
    data: Mapping[str, Any]
    places: Mapping[str, SourceLocation]


@dataclass(frozen=True, slots=True)
class Subject:
    """A checked target with its name and findings.

    `verdict` is `None` if the table could not be built, if loading failed with `error`, and for a graph of another
    library, which has an `answer`. `place` is the location of the error or of the machine; it is used for nodes without
    a location.
    """

    name: str
    findings: tuple[Finding, ...]
    verdict: Verdict | None = None
    place: SourceLocation | None = None
    error: str | None = None
    answer: Answer | None = None

    @property
    def status(self) -> SubjectStatus:
        """The status of the verdict. A table that cannot be built is `refuted`."""
        if self.error is not None:
            return "error"
        if self.answer is not None:
            return self.answer.status
        return "refuted" if self.verdict is None else self.verdict.status

    def node(self, name: str | None) -> Node[Any, Any] | None:
        """Return the machine's node with this name, or `None`."""
        return None if self.verdict is None or name is None else self.verdict.graph.nodes.get(name)

    def place_of(self, finding: Finding, root: str) -> SourceLocation | None:
        """Return the location of the finding's node, or else of another node of its loop, or else of the machine.

        Locations inside the folder `root` are preferred, because a user cannot fix the functions of a library.
        """
        loop = () if finding.witness is None else finding.witness.loop
        return self.place_of_nodes([finding.node, *(step.source for step in loop)], root)

    def place_of_nodes(self, names: Sequence[str | None], root: str) -> SourceLocation | None:
        """Return the location of the first node's function inside `root`, or else of the machine, or else of a node."""
        nodes = [node for node in map(self.node, names) if node is not None]
        foreign = () if self.answer is None else map(self.answer.places.get, (name or "" for name in names))
        places = [*(place_of(node.function) for node in nodes), *foreign, self.place]
        known = [place for place in places if place is not None]
        inside = [place for place in known if place.is_inside(root)]
        return next(iter([*inside, *known]), None)


def subject_of(name: str, verdict: Verdict, place: SourceLocation | None = None) -> Subject:
    """Return the subject of a verdict."""
    return Subject(name, verdict.findings, verdict, place)


def status_of(subjects: Sequence[Subject]) -> SubjectStatus:
    """Return the worst status of several subjects: `error`, then `refuted`, then `unproved`, then `proved`."""
    severity: tuple[SubjectStatus, ...] = ("proved", "unproved", "refuted", "error")
    statuses: list[SubjectStatus] = ["proved", *(subject.status for subject in subjects)]
    return max(statuses, key=severity.index)


def place_of(function: Callable[..., Any]) -> SourceLocation | None:
    """Return the location of a function, at its first decorator; `None` if it was not written in Python."""
    code = getattr(unwrap_function(function), "__code__", None)
    return None if code is None else SourceLocation(code.co_filename, code.co_firstlineno)


def qualified(function: Callable[..., Any]) -> str:
    """Return the full name of a function, with its module."""
    written = unwrap_function(function)
    name = getattr(written, "__qualname__", type(written).__name__)
    return f"{getattr(written, '__module__', None) or ''}.{name}".removeprefix(".")
