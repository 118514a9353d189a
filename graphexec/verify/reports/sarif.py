"""Findings as SARIF 2.1.0, which code scanning and editors show: a rule for each code, a result for each finding.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from graphexec.kernel.serialization import format_json
from graphexec.verify.proof.findings import CODES, Finding, Witness
from graphexec.verify.proof.flow import Transition
from graphexec.verify.reports.document import bounds_data
from graphexec.verify.reports.subject import SourceLocation, Subject, qualified

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(subjects: Sequence[Subject], *, root: str = "", version: str | None = None) -> str:
    """Return the findings as SARIF: one run of graphexec (in this `version`) over all subjects.

    A witness is a code flow: its stem has nesting level 0 and its loop 1. Paths of files inside the folder `root` are
    relative to `%SRCROOT%`. A target that could not be checked is a notification of the run; the verdicts are in its
    property bag.
    """
    rules = sorted(CODES)
    driver: dict[str, Any] = {"name": "graphexec", "rules": [_rule(code) for code in rules]}
    if version is not None:
        driver["version"] = version
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(subjects, root)],
        "results": [
            _result(subject, finding, rules.index(finding.code), root)
            for subject in subjects
            for finding in subject.findings
        ],
        "properties": {"verdicts": [_verdict(subject) for subject in subjects]},
    }
    return format_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _invocation(subjects: Sequence[Subject], root: str) -> dict[str, Any]:
    lost = [_notification(subject, root) for subject in subjects if subject.error is not None]
    return {"executionSuccessful": not lost} | ({"toolExecutionNotifications": lost} if lost else {})


def _notification(subject: Subject, root: str) -> dict[str, Any]:
    place = subject.place
    return {
        "level": "error",
        "message": {"text": f"{subject.name}: {subject.error}"},
        "locations": [] if place is None else [{"physicalLocation": _physical(place, root)}],
    }


def _rule(code: str) -> dict[str, Any]:
    title = CODES[code]
    # The format requires an identifier in Pascal case.
    name = "".join(word[:1].upper() + word[1:] for word in title.replace("-", " ").split() if word.isalnum())
    return {"id": code, "name": name, "shortDescription": {"text": title[:1].upper() + title[1:]}}


def _result(subject: Subject, finding: Finding, rule: int, root: str) -> dict[str, Any]:
    location = _location(subject, finding.node, subject.place_of(finding, root), root)
    # The identity of a finding does not depend on line numbers.
    identity = "\0".join([subject.name, finding.code, finding.node or "", finding.outcome or "", finding.fact])
    result = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": f"{subject.name}: {finding}"},
        "locations": [location] if location else [],
        "partialFingerprints": {"graphexecFinding/v1": hashlib.sha256(identity.encode()).hexdigest()},
        "properties": {"target": subject.name, "fact": finding.fact, "remedy": finding.remedy},
    }
    flow = [] if finding.witness is None else _flow(subject, finding.witness, root)
    return result | ({"codeFlows": [{"threadFlows": [{"locations": flow}]}]} if flow else {})


def _flow(subject: Subject, witness: Witness, root: str) -> list[dict[str, Any]]:
    steps: list[tuple[Transition, int]] = [(step, 0) for step in witness.stem] + [(step, 1) for step in witness.loop]
    return [
        {
            "location": _location(subject, step.source, subject.place_of_nodes([step.source], root), root)
            | {"message": {"text": str(step)}},
            "nestingLevel": level,
            "executionOrder": order,
            "importance": "essential" if level else "important",
        }
        for order, (step, level) in enumerate(steps, 1)
    ]


def _location(subject: Subject, name: str | None, place: SourceLocation | None, root: str) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if place is not None:
        location["physicalLocation"] = _physical(place, root)
    if name is not None:
        node = subject.node(name)
        whole = f"{subject.name}.{name}" if node is None else qualified(node.function)
        location["logicalLocations"] = [{"name": name, "fullyQualifiedName": whole, "kind": "function"}]
    return location


def _physical(place: SourceLocation, root: str) -> dict[str, Any]:
    path = place.within(root)
    whole = path.startswith("/") or path[1:2] == ":"
    # A Windows path begins with a letter, the path of a URI with a slash.
    uri = f"file:///{quote(path.lstrip('/'), safe='/:')}" if whole else quote(path)
    artifact = {"uri": uri} if whole else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    return {"artifactLocation": artifact, "region": {"startLine": place.line}}


def _verdict(subject: Subject) -> dict[str, Any]:
    bounds = None if subject.verdict is None else subject.verdict.bounds
    data = None if bounds is None else bounds_data(bounds)
    return {"target": subject.name, "status": subject.status, "bounds": data}
