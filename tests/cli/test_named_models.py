"""`graphexec run --model`: a provider and its model, the old forms, and the agent for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphexec.errors import WeightsError
from graphexec.models.local import weights
from tests.cli.conversations import Reply, answer_text, native_tool_call, serving, tool_call_text
from tests.cli.terminals import command

ASK = ("run", "What is 37 * 48?")
NATIVE: list[Reply] = [native_tool_call("calculator", expression="37 * 48"), "It is 1776."]
STRUCTURED: list[Reply] = [tool_call_text("calculator", expression="37 * 48"), answer_text("It is 1776.")]


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GROQ_API_KEY", "sk-1234")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


# The options of a server at a variable's address, and the agent that is taken.
NAMED = [
    ("openai:gpt-5-mini", "OPENAI_BASE_URL", "tool_calling"),
    ("openai:somebody-elses", "OPENAI_BASE_URL", "structured"),
    ("groq:llama-3.3-70b-versatile", "GROQ_BASE_URL", "tool_calling"),
    ("ollama:qwen3:8b", "OLLAMA_BASE_URL", "tool_calling"),
    ("ollama:qwen3:0.6b", "OLLAMA_BASE_URL", "structured"),
    # A name alone, as it has always been possible.
    ("small", "OPENAI_BASE_URL", "structured"),
]


@pytest.mark.parametrize(("name", "variable", "agent"), NAMED)
def test_name_chooses_server_and_agent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, variable: str, agent: str
) -> None:
    with serving(NATIVE if agent == "tool_calling" else STRUCTURED) as server:
        monkeypatch.setenv(variable, server.url)
        ended = command(capsys, *ASK, "--model", name)
    assert (ended.code, ended.out) == (0, "It is 1776.\n")
    assert ended.err.startswith(f"{name} · {agent} agent · calculator, convert_units, today\n")
    assert server.asked[0]["model"] in (name, name.partition(":")[2])


def test_base_url_takes_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("mistral:7b", "qwen3:0.6b", "claude-like"):
        with serving(STRUCTURED) as server:
            ended = command(capsys, *ASK, "--model", name, "--base-url", server.url)
            assert (ended.code, server.asked[0]["model"]) == (0, name)


def test_retries_reach_a_named_provider(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:9/v1")
    ended = command(capsys, *ASK, "--model", "groq:llama", "--retries", "0")
    assert ended.code == 1
    assert "llama at http://127.0.0.1:9/v1" in ended.err


@pytest.mark.parametrize("name", ["local", "local:smollm2-135m-instruct", "smollm2-135m-instruct"])
def test_local_names_need_the_weights(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked: list[str] = []

    def pull(weights_name: str) -> Path:
        asked.append(weights_name)
        raise WeightsError("there is no net")

    monkeypatch.setattr(weights, "pull", pull)
    assert command(capsys, *ASK, "--model", name).code == 1
    assert asked == ["smollm2-135m-instruct"]
    ended = command(capsys, *ASK, "--model", name, "--retries", "1")
    assert (ended.code, ended.err.partition(";")[0]) == (
        2,
        "graphexec: --retries applies to a server, and this model is local",
    )


# A name, and a part of the error.
WRONG = [
    ("opnai:gpt-5", "opnai is not a known provider; did you mean --model openai:gpt-5?"),
    ("claude-sonnet-4-5", "there is no model claude-sonnet-4-5; did you mean --model anthropic:claude-sonnet-4-5?"),
    (
        "qwen3:8b",
        "there is no model qwen3:8b; did you mean --model ollama:qwen3:8b? Else name its server with --base-url",
    ),
    ("openai:", "--model is 'openai:', without a model; write 'openai:<model>'"),
    ("azure:gpt-5", "--model is 'azure:gpt-5', and azure needs an address of its own; write "),
    ("local:other", "--model is 'local:other', which is neither known weights nor a GGUF file"),
]


@pytest.mark.parametrize(("name", "says"), WRONG)
def test_wrong_name_is_wrong_usage(capsys: pytest.CaptureFixture[str], name: str, says: str) -> None:
    ended = command(capsys, *ASK, "--model", name)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert ended.err.count("\n") == 1
