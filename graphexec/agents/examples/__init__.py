"""Worked examples for small models: written by users, or synthesised from the tools."""

from graphexec.agents.examples.synthesis import synthesised_examples
from graphexec.agents.examples.worked import WorkedExample

__all__ = ["WorkedExample", "synthesised_examples"]
