"""Worked examples for small models: written by users, or synthesised from the tools."""

from graphexec.agents.examples.synthesis import WorkedExample, synthesised_examples

__all__ = ["WorkedExample", "synthesised_examples"]
