"""Tests of the pieces that plug into an agent's machine."""
