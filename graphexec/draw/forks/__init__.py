"""Forks: go on from a step of a recorded run, with another reply or observation."""

from graphexec.draw.forks.forking import Fork, fork

__all__ = ["Fork", "fork"]
