"""Defects of the audit: faults in a trace that it misses."""

from tests.defects.defect import Change, Defect

_TAMPERED = "tests/verify/test_tampered_traces.py::test_tampered_trace_is_refused"
_AUDIT, _TRACE = "verify/audit/audit.py", "verify/audit/trace.py"

AUDITING = (
    Defect(
        "status not compared with the ending",
        _TAMPERED,
        Change(_AUDIT, 'elif ended and (status == "stopped") != (', 'elif ended and status == "paused" and ('),
    ),
    Defect(
        "duplicate start accepted",
        _TAMPERED,
        Change(_TRACE, '            case "start" if line > 1:\n', '            case "start" if line < 1:\n'),
    ),
    Defect(
        "transition without an outcome not compared",
        _TAMPERED,
        Change(_AUDIT, "        if visit.left:\n", "        if visit.outcome is not None:\n"),
    ),
    Defect(
        "answer to an earlier request accepted",
        _TAMPERED,
        Change(_TRACE, " if sequence == self._sequence else None", ""),
    ),
    Defect(
        "limits of the run not compared with those of the proof",
        _TAMPERED,
        Change(_AUDIT, "if limit != proved or isinstance(limit, bool):", "if isinstance(limit, bool):"),
    ),
    Defect(
        "seconds of the result alone",
        _TAMPERED,
        Change(_AUDIT, 'max(took, result["seconds"]), _GRACE', 'result["seconds"], _GRACE'),
    ),
    Defect(
        "charges not compared with requests",
        "tests/verify/test_audit_members.py::test_changed_nested_charges_are_reported",
        Change(_TRACE, "if not (0 if open_ else least[name]) <= count <= most:", "if count < 0:"),
    ),
    Defect(
        "exception for an invalid record",
        "tests/verify/test_tampered_traces.py::test_any_json_is_refused",
        Change(_AUDIT, "except (LookupError, TypeError, AttributeError,", "except (LookupError, TypeError,"),
        raises="AttributeError",
    ),
)
