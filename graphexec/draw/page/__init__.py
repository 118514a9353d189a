"""HTML: one self-contained page that shows a machine and a run, step by step."""

from graphexec.draw.page.assembly import html, record_json

__all__ = ["html", "record_json"]
