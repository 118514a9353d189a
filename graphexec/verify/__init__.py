"""Prove that every run of a machine ends, check and compare proofs, and analyse transition tables."""

from graphexec.verify.checker.check import check
from graphexec.verify.difference import Change, Delta, Difference, diff
from graphexec.verify.networkx_graph import dominates, postdominates, shortest_path, to_networkx
from graphexec.verify.proof.certificate import Bound, Bounds, Certificate
from graphexec.verify.proof.findings import CODES, Finding, UnprovedError, Verdict, Witness, findings_of
from graphexec.verify.proof.prove import verify

__all__ = [
    "CODES",
    "Bound",
    "Bounds",
    "Certificate",
    "Change",
    "Delta",
    "Difference",
    "Finding",
    "UnprovedError",
    "Verdict",
    "Witness",
    "check",
    "diff",
    "dominates",
    "findings_of",
    "postdominates",
    "shortest_path",
    "to_networkx",
    "verify",
]
