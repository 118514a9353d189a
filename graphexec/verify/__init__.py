"""Prove that every run of a machine ends, check proofs, and analyse transition tables."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.verify.checker.check import check
from graphexec.verify.networkx_graph import dominates, postdominates, shortest_path, to_networkx
from graphexec.verify.proof.certificate import Bound, Bounds, Certificate
from graphexec.verify.proof.findings import CODES, Finding, UnprovedError, Verdict, Witness, findings_of
from graphexec.verify.proof.prove import verify

__all__ = [
    "CODES",
    "Bound",
    "Bounds",
    "Certificate",
    "Finding",
    "UnprovedError",
    "Verdict",
    "Witness",
    "check",
    "dominates",
    "findings_of",
    "postdominates",
    "shortest_path",
    "to_networkx",
    "verify",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
