"""The piece that keeps personal data from a model."""

from graphexec.nodes.privacy.piece import redact_pii

__all__ = ["redact_pii"]
