"""Tests of the agent loop's semantics: one for each row of the tables in docs/semantics.md."""
