"""Graphs of other libraries, as their programs declare them, and what ends their runs."""

from graphexec.integrations.declared.declared import END, START, DeclaredGraph, Guard
from graphexec.integrations.declared.judging import Judgement, judge, make_machine
from graphexec.integrations.declared.reporting import findings_in, to_picture, to_subject
from graphexec.integrations.declared.telling import format_loop, tell

__all__ = ["END", "START", "DeclaredGraph", "Guard", "Judgement", "findings_in", "format_loop", "judge", "make_machine"]
__all__ += ["tell", "to_picture", "to_subject"]
