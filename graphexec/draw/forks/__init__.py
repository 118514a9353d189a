"""Forks: go on from a step of a recorded run, with another reply or observation."""

from graphexec.draw.forks.forking import Fork, fork
from graphexec.draw.forks.script import last_step

__all__ = ["Fork", "fork", "last_step"]
