"""Verdicts as JSON, for programs.

The names do not change within a `version`; objects may get further names. `null` stands for a missing value.

- `version`: 1; `status` of all targets together: `proved`, `refuted`, `unproved` or `error`; `targets`: one object
  each:
- `target`: the name; `status`; `error`: the reason if it could not be checked; `declared` (of a graph of another
  library, else `null`): `library`, `ending`, `answer`, `notes`, `loops`, `longest`, `rounds`, `limit`; `place` (`file`,
  `line`) of the error or of the machine; `digest` of the flow (if proved); `limits`: by name, `null` is no limit
- `bounds` (if proved): `transitions`, `model_calls`, `tool_calls`, `seconds`, each with `form` (in the names of the
  limits; `null` without a bound), `number` (for these limits), `exact` (some run reaches it), `assuming` (a condition
  that the proof does not check, or `null`); `meters`: the bounds of all meters that effects charge, by name
- `assumptions`: the conditions under which the proof holds, as strings
- `findings`: each with `code`, `title`, `severity` (`error`, `warning`), `node`, `outcome`, `fact`, `remedy`, `text`
  (the whole finding on one line), `place` (`file`, `line`) and `witness`: `stem` and `loop`, lists of transitions
  (`source`, `outcome`, `target`, `kind`: `move`, `gate` or `within`), and the `limits` of the run
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphexec.kernel.meters import Limits
from graphexec.kernel.serialization import format_json
from graphexec.verify.proof.certificate import Bound, Bounds
from graphexec.verify.proof.findings import Finding, Witness
from graphexec.verify.reports.subject import SourceLocation, Subject, status_of

VERSION = 1

# The meters of agents, which the limits of this version always have.
_AGENT_METERS = ("model_calls", "tool_calls", "tokens", "cost")


def document(subjects: Sequence[Subject], *, root: str = "") -> str:
    """Return the subjects as JSON; paths of files inside the folder `root` are relative to it."""
    whole = {
        "version": VERSION,
        "status": status_of(subjects),
        "targets": [_target(subject, root) for subject in subjects],
    }
    return format_json(whole, indent=2) + "\n"


def bounds_data(bounds: Bounds) -> dict[str, Any]:
    """Return the bounds as JSON data."""
    named = ("transitions", "model_calls", "tool_calls", "seconds")
    return {
        **{name: _bound_data(getattr(bounds, name)) for name in named},
        "meters": {name: _bound_data(bound) for name, bound in (*bounds.meters.items(), *bounds.quotas.items())},
    }


def limits_data(limits: Limits) -> dict[str, Any]:
    """Return the limits as JSON data, by name; agents' meters always."""
    own = _fields(limits, "iterations", "seconds", "fan_out", "restarts", "depth", "nested_runs")
    return own | {name: limits[name] for name in (*_AGENT_METERS, *limits.meters)}


def _target(subject: Subject, root: str) -> dict[str, Any]:
    verdict = subject.verdict
    certificate = None if verdict is None else verdict.certificate
    return {
        "target": subject.name,
        "status": subject.status,
        "error": subject.error,
        "declared": None if subject.answer is None else subject.answer.data,
        "place": _place(subject.place, root),
        "digest": None if certificate is None else certificate.flow.digest,
        "limits": None if verdict is None else limits_data(verdict.limits),
        "bounds": None if certificate is None else bounds_data(certificate.bounds),
        "assumptions": [] if verdict is None else list(verdict.assumptions),
        "findings": [_finding(subject, finding, root) for finding in subject.findings],
    }


def _finding(subject: Subject, finding: Finding, root: str) -> dict[str, Any]:
    return {
        **_fields(finding, "code", "title", "severity", "node", "outcome", "fact", "remedy"),
        "text": str(finding),
        "place": _place(subject.place_of(finding, root), root),
        "witness": None if finding.witness is None else _witness(finding.witness),
    }


def _place(place: SourceLocation | None, root: str) -> dict[str, Any] | None:
    return None if place is None else {"file": place.within(root), "line": place.line}


def _witness(witness: Witness) -> dict[str, Any]:
    steps = {
        name: [_fields(step, "source", "outcome", "target", "kind") for step in path]
        for name, path in (("stem", witness.stem), ("loop", witness.loop))
    }
    return {**steps, "limits": limits_data(witness.limits)}


def _bound_data(bound: Bound) -> dict[str, Any]:
    return _fields(bound, "form", "number", "exact", "assuming")


def _fields(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}
