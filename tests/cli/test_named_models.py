"""`graphexec run --model`: a provider and its model, the old forms, and the agent for each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphexec.errors import WeightsError
from graphexec.models.local import weights
from tests.cli.conversations import Reply, answer_text, native_tool_call, serving, tool_call_text
from tests.cli.terminals import command, refused
from tests.parameters import cases

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
    # Names without a provider are the server's.
    ("small", "OPENAI_BASE_URL", "structured"),
    ("llama3.2:3b", "OPENAI_BASE_URL", "structured"),
    ("mistral:7b", "OPENAI_BASE_URL", "structured"),
]


@cases(("name", "variable", "agent"), NAMED)
def test_name_chooses_server_and_agent(monkeypatch: pytest.MonkeyPatch, name: str, variable: str, agent: str) -> None:
    with serving(NATIVE if agent == "tool_calling" else STRUCTURED) as server:
        monkeypatch.setenv(variable, server.url)
        ended = command(*ASK, "--model", name)
    assert (ended.code, ended.out) == (0, "It is 1776.\n")
    begin = re.escape(name) + r"(?: at 127\.0\.0\.1:\d+)?"
    assert re.match(f"{begin} · {agent} agent · calculator, convert_units, today\n", ended.err)
    named = variable != "OPENAI_BASE_URL" or name.startswith("openai:")
    assert server.asked[0]["model"] == (name.partition(":")[2] if named else name)


def test_base_url_takes_any_name() -> None:
    for name in ("mistral:7b", "qwen3:0.6b", "claude-like"):
        with serving(STRUCTURED) as server:
            ended = command(*ASK, "--model", name, "--base-url", server.url)
            assert (ended.code, server.asked[0]["model"]) == (0, name)


def test_named_provider_has_an_address_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(STRUCTURED) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:9/v1")
        ended = command(*ASK, "--model", "groq:llama", "--retries", "0")
    assert (ended.code, server.asked) == (1, [])
    monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:9/v1")
    ended = command(*ASK, "--model", "groq:llama", "--retries", "0")
    assert ended.code == 1
    assert "llama at http://127.0.0.1:9/v1" in ended.err


@cases("name", ["local", "local:smollm2-135m-instruct", "smollm2-135m-instruct"])
def test_local_names_need_the_weights(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    asked: list[str] = []

    def pull(weights_name: str) -> Path:
        asked.append(weights_name)
        raise WeightsError("there is no net")

    monkeypatch.setattr(weights, "pull", pull)
    assert command(*ASK, "--model", name).code == 1
    assert asked == ["smollm2-135m-instruct"]
    ended = command(*ASK, "--model", name, "--retries", "1")
    assert (ended.code, ended.err.partition(";")[0]) == (
        2,
        "graphexec: --retries applies to a server, and this model is local",
    )


# A name, and a part of the error.
WRONG = [
    ("opnai:gpt-5", "--model is 'opnai:gpt-5', without a known provider; did you mean 'openai:gpt-5'?"),
    ("claude-sonnet-4-5", "without a known provider; did you mean 'anthropic:claude-sonnet-4-5'?"),
    ("qwen3:8b", "did you mean 'ollama:qwen3:8b'? Else name its server with --base-url"),
    ("mine", "the providers are openai, openai-responses, "),
    ("mine", "; or name its server with --base-url"),
    ("mistral:7b", "--model is 'mistral:7b', and 7b looks like the tag of a local model; write 'ollama:mistral:7b'"),
    ("http://127.0.0.1:8080/v1", "--model is an address; give the name of the model"),
    ("openai:", "--model is 'openai:', without a model; write 'openai:<model>'"),
    ("azure:gpt-5", "--model is 'azure:gpt-5', and Azure needs an address of its own; write "),
    ("local:other", "--model is 'local:other', which is neither known weights nor a GGUF file"),
]


@cases(("name", "says"), WRONG)
def test_wrong_name_is_wrong_usage(name: str, says: str) -> None:
    assert says in refused(*ASK, "--model", name)
