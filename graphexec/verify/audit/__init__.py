"""Recorded runs, checked against a certificate."""

from graphexec.verify.audit.audit import Audit, audit
from graphexec.verify.audit.trace import Trace, Violation

__all__ = ["Audit", "Trace", "Violation", "audit"]
