"""Seeded defects: mistakes to make in a copy of the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Change:
    """A replacement of source text in one file of the package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Defect:
    """A mistake, its changes, and the promise or test that it breaks.

    `raises` is the exception that shows the mistake if no assertion fails.
    """

    name: str
    killed_by: str
    change: Change
    another: Change | None = None
    raises: str | None = None

    @property
    def changes(self) -> tuple[Change, ...]:
        return (self.change,) if self.another is None else (self.change, self.another)


def apply(defect: Defect, package: Path) -> None:
    """Make the mistake in a copy of the package. Raises `LookupError` if the source has changed."""
    for change in defect.changes:
        path = package / change.file
        source = path.read_text()
        if (count := source.count(change.old)) != 1:
            raise LookupError(
                f"{defect.name}: {change.file} has {change.old!r} {count} times; rewrite the defect for the source "
                f"as it is now"
            )
        path.write_text(source.replace(change.old, change.new))
