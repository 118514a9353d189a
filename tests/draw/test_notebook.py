"""The displays in a notebook of an executor, a machine, a result and a verdict."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec import draw
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.layout.graphviz import lay_out
from graphexec.draw.model.picture import picture_of
from graphexec.executor import AGENT_EXECUTOR
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from tests.executor.actors import caller_of, echo
from tests.parameters import cases
from tests.verify.bad_machines import RESET_INSIDE


class Formatter:
    """Knows how to show objects of a class, as the formatter of IPython does."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Callable[[Any], dict[str, str]]] = {}

    def for_type_by_name(self, module: str, name: str, function: Callable[[Any], dict[str, str]]) -> None:
        self._functions[module, name] = function

    def __call__(self, value: Any) -> dict[str, str]:
        kind = value.__class__
        return self._functions[kind.__module__, kind.__qualname__](value)


shown = Formatter()
gx._register_displays(shown)  # pyright: ignore[reportPrivateUsage]


def scripted(*replies: str | ModelReply, **options: Any) -> gx.AgentExecutor:
    return caller_of(ScriptedModel(replies), echo, **options)


def text_of(value: Any) -> str:
    return shown(value)["text/plain"]


@pytest.mark.medium
@cases("value, fact", (scripted("x", max_iterations=7), "costs 1 of 7 iterations"), (AGENT_EXECUTOR, "plan"))
def test_picture_is_shown_with_its_limits(value: Any, fact: str) -> None:
    bundle = shown(value)
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg")
    assert fact in bundle["image/svg+xml"]
    assert bundle["text/plain"] == repr(value)


@cases("value", AGENT_EXECUTOR, scripted("x"))
def test_text_drawing_replaces_a_missing_extra(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out.cache_clear()
    for name in ("pygraphviz", "resvg_py"):
        monkeypatch.setitem(sys.modules, name, None)
    bundle = shown(value)
    assert set(bundle) == {"text/vnd.mermaid", "text/plain"}
    assert bundle["text/vnd.mermaid"].startswith("---")
    with pytest.raises(gx.InputError, match=r"pygraphviz, which is missing; pip install 'graphexec-agents\[draw\]'"):
        format(AGENT_EXECUTOR, "svg")
    assert bundle["text/plain"].startswith(terminal(picture_of(value.verify())))
    assert bundle["text/plain"].endswith("pip install 'graphexec-agents[draw]'")


def test_large_machine_is_drawn_in_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "MOST_EDGES", 3)
    text = text_of(AGENT_EXECUTOR)
    assert "image/svg+xml" not in shown(AGENT_EXECUTOR)
    assert "│ check_return_direct │" in text
    assert text.endswith("10 edges are too many for a picture here; write it to a file with .draw('flow.svg')")


def test_result_and_verdict_are_printed() -> None:
    result = scripted(ModelReply("", (ToolCall("1", "shout", "{}"),)), max_iterations=1).run("?")
    assert shown(result) == {"text/plain": str(result)}
    assert text_of(scripted("Four.").run("2 + 2?")) == "Four."
    verdict = AGENT_EXECUTOR.verify(gx.Limits(iterations=4))
    assert shown(verdict) == {"text/plain": str(verdict)}
    assert text_of(RESET_INSIDE.verify()).startswith("REFUTED")
    assert "GX015" in text_of(RESET_INSIDE.verify())
