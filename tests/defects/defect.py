"""Seeded defects: mistakes to make in the source of the package."""

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
    changes: tuple[Change, ...]
    raises: str | None = None


def changed_sources(defect: Defect, package: Path) -> dict[str, str]:
    """Return the source of each file that the defect changes. Raises `LookupError` if the source does not fit it."""
    sources: dict[str, str] = {}
    for change in defect.changes:
        source = sources.get(change.file) or (package / change.file).read_text()
        if (count := source.count(change.old)) != 1:
            raise LookupError(
                f"{defect.name}: {change.file} has {change.old!r} {count} times; rewrite the defect for the source "
                f"as it is now"
            )
        sources[change.file] = source.replace(change.old, change.new)
    return sources
