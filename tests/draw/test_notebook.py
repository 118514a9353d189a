"""The displays in a notebook of an executor, a machine, a result and a verdict."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.draw import notebook
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.layout.graphviz import lay_out
from graphexec.draw.model.picture import picture_of
from graphexec.executor import AGENT_EXECUTOR
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from tests.executor.actors import echo
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
    return gx.AgentExecutor(agent=gx.create_tool_calling_agent(ScriptedModel(replies), [echo]), tools=[echo], **options)


def calling(text: str) -> ModelReply:
    return ModelReply("", (ToolCall("1", "echo", json.dumps({"text": text})),))


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
    monkeypatch.setattr(notebook, "MOST_EDGES", 3)
    text = text_of(AGENT_EXECUTOR)
    assert "image/svg+xml" not in shown(AGENT_EXECUTOR)
    assert "│ check_return_direct │" in text
    assert text.endswith("10 edges are too many for a picture here; write it to a file with .draw('flow.svg')")


def test_result_shows_its_steps_answer_and_usage() -> None:
    assert text_of(scripted("Four.").run("2 + 2?")).startswith("finished: Four.\n1 model call, 0 tool calls, ")
    lines = text_of(scripted(calling("a"), calling("b"), "Four.").run("?")).splitlines()
    assert lines[:3] == ['1. echo(text="a") → a', '2. echo(text="b") → b', "finished: Four."]
    # A call that failed, and the limit that stopped a run.
    unknown = ModelReply("", (ToolCall("1", "shout", "{}"),))
    lines = text_of(scripted(unknown, max_iterations=1).run("?")).splitlines()
    assert lines[0].startswith("1. shout() → unknown_tool: ")
    assert lines[1] == "stopped: the limit of 1 iteration was reached (1 spent)"
    generated = scripted(unknown, "I do not know.", max_iterations=1, early_stopping_method="generate").run("?")
    end = "stopped: the limit of 1 iteration was reached (1 spent); I do not know."
    assert text_of(generated).splitlines()[1] == end
    # A long or hostile text is a line without control characters.
    text = text_of(scripted(calling("\x1b[31m\u202e\n" * 500), "x" * 500).run("?"))
    assert len(text.splitlines()) == 3
    assert max(map(len, text.splitlines())) < 500
    assert not set("\x1b\u202e") & set(text)


def test_verdict_shows_its_report() -> None:
    verdict = AGENT_EXECUTOR.verify(gx.Limits(iterations=4))
    assert shown(verdict) == {"text/plain": str(verdict)}
    assert text_of(RESET_INSIDE.verify()).startswith("REFUTED")
    assert "GX015" in text_of(RESET_INSIDE.verify())
