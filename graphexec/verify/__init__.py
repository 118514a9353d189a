"""Proof that every run ends, before it starts; and what to look at where it may not."""

from graphexec.verify.certificate import Bound, Bounds, Certificate
from graphexec.verify.checker import check
from graphexec.verify.prove import verify
from graphexec.verify.verdict import CODES, Finding, Verdict, Witness, findings_of

__all__ = [
    "CODES",
    "Bound",
    "Bounds",
    "Certificate",
    "Finding",
    "Verdict",
    "Witness",
    "check",
    "findings_of",
    "verify",
]
