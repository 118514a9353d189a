"""Displays for notebooks: a machine as its picture, a run as its page, and a verdict as a table of bounds.

Each function returns a MIME bundle for IPython, where `graphexec` registers it. The HTML is self-contained, has the
notebook's colours, and escapes every name and text.
"""

from graphexec.draw.notebook.machine import machine_bundle
from graphexec.draw.notebook.run import run_bundle
from graphexec.draw.notebook.verdict import subject_bundle, verdict_bundle

__all__ = ["machine_bundle", "run_bundle", "subject_bundle", "verdict_bundle"]
