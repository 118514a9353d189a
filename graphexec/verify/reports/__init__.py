"""Formats of verdicts: text, JSON, SARIF, and annotations for GitHub Actions."""

from __future__ import annotations

from graphexec.verify.reports.document import document
from graphexec.verify.reports.sarif import sarif
from graphexec.verify.reports.subject import Answer, SourceLocation, Subject, place_of, status_of, subject_of
from graphexec.verify.reports.text import github, text

__all__ = ["Answer", "SourceLocation", "Subject", "document", "github", "place_of", "sarif", "status_of", "subject_of"]
__all__ += ["text"]
