"""`graphexec run`: the instructions, the sampling, the examples and the model of the built-in agent."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphexec.cli.runs.building import AgentOptions, build_executor
from graphexec.models.provider_names import PROVIDERS
from tests.cli.conversations import Reply, Silence, answer_text, native_tool_call, serving, tool_call_text
from tests.cli.terminals import Ended, command, refused
from tests.cli.test_run_options import SAYS
from tests.parameters import cases

EXAMPLE = 'What is 2 + 3? => calculator {"expression": "2 + 3"} => 5 => It is 5.'


def ask(replies: Sequence[Reply], *options: str, agent: str = "tool_calling") -> tuple[Ended, dict[str, Any]]:
    """Ask a model with these replies; return the end and the last request."""
    with serving(replies) as server:
        ended = command("run", "q", "--model", "m", "--base-url", server.url, "--agent", agent, *options)
    # A request that times out at once may not have come.
    return ended, (server.asked or [{}])[-1]


def test_settings_of_the_model_are_sent() -> None:
    ended, body = ask(["yes"], "--temperature", "0.25", "--max-reply-tokens", "77", "--system", "Be {brief}.")
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    assert (body["temperature"], 77 in (body.get("max_tokens"), body.get("max_completion_tokens"))) == (0.25, True)
    assert body["messages"][0] == {"role": "system", "content": "Be {brief}."}
    ended, _ = ask([Silence()], "--timeout", "0.2", "--retries", "0")
    assert (ended.code, ended.out) == (1, "")
    assert "did not answer within 0.2 s" in ended.err
    assert "allow a longer one with --timeout" in ended.err


@cases(("limit", "sent"), [(64, 64), (4096, 4096), (100_000, None)])
def test_token_limit_of_the_run_caps_each_reply(limit: int, sent: int | None) -> None:
    ended, body = ask([native_tool_call("calculator", expression="1 + 1"), "two"], "--max-tokens", str(limit))
    assert body.get("max_tokens", body.get("max_completion_tokens")) == sent
    stopped = limit < 110
    assert (ended.code, "the limit of 64 tokens was reached" in ended.err) == ((3, True) if stopped else (0, False))


@cases("agent", SAYS)
def test_every_agent_follows_the_system_text(agent: str) -> None:
    ended, body = ask(SAYS[agent][1:], "--system", 'Speak {"like"} a pirate.', agent=agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert 'Speak {"like"} a pirate.' in " ".join(message["content"] for message in body["messages"])


TWICE = 'Twice 5? => calculator {"expression": "2 * 5"}'


@cases(
    ("examples", "pieces"),
    [
        ([EXAMPLE, "Hi! => Hello!"], ["What is 2 + 3?", "2 + 3", "It is 5.", "Hi!", "Hello!"]),
        ([EXAMPLE, "Hi! => Hello!", "Day? => today => Monday"], ["It is 5.", "Hello!", "Day?", "Monday"]),
        # The result of an example may be left out.
        ([TWICE], ["Twice 5?", "2 * 5"]),
    ],
)
def test_examples_are_shown_to_the_model(examples: list[str], pieces: list[str]) -> None:
    options = [option for example in examples for option in ("--example", example)]
    ended, body = ask([answer_text("yes")], *options, agent="structured")
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    shown = json.dumps(body["messages"])
    assert all(piece in shown for piece in pieces)
    assert "How many kilometers" not in shown


@cases("agent", [one for one in SAYS if one != "structured"])
def test_other_agents_show_the_calls_of_examples(agent: str) -> None:
    ended, body = ask(SAYS[agent][1:], "--example", f"{TWICE} => 10", agent=agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert "2 * 5" in json.dumps(body)


@cases(
    ("options", "expected"),
    [
        (["--temperature", "-1"], "Invalid value for '--temperature': it is not a number, 0 or more; write one"),
        (["--temperature", "nan"], "Invalid value for '--temperature': it is not a number, 0 or more; write one"),
        (["--timeout", "0"], "Invalid value for '--timeout': it is not a finite number of seconds above 0; write one"),
        (["--timeout", "inf"], "Invalid value for '--timeout': it is not a finite number of seconds above 0"),
        (["--max-reply-tokens", "0"], "Invalid value for '--max-reply-tokens': "),
        (["--max-tokens", "-1"], "Invalid value for '--max-tokens': "),
        (["--limit", "tokens"], "--limit tokens has no value; write --limit NAME=N, such as tool_calls=20"),
        (["--limit", "tokens=many"], "the limit tokens is 'many'; pass a number, or none for no limit"),
        (["--limit", "tokens=-1"], "tokens is -1"),
        (["--limit", "iterations=1.5"], "iterations is 1.5"),
        (["--limit", "tokns=5"], "--limit tokns is not a limit of this executor; did you mean tokens?"),
        (["--limit", "cost=0"], "the limit cost is 0"),
        (["--limit", "iterations=none"], "with --limit iterations=none, a run may not end; set a limit, such as --max"),
        (["--example", "Hello => Hi!"], "--example 'Hello' has no call, and only the structured agent shows such"),
        (["--agent=structured", "--example", "Hi"], "--example 'Hi' is not a question with its solution; write 'QUE"),
        (["--agent=structured", "--example", "q => calc {} => 1"], "which is not a call of a tool (calculator, "),
        (["--agent=structured", "--example", "q => today {] => 1"], "--example: the arguments of today are not JSON"),
        (["--agent=structured", "--example", 'q => today {"a": 1} => 1'], "--example: today has no argument a; it has"),
        (["--model", "azure:gpt-5"], "Azure needs an address of its own; write --model DEPLOYMENT --base-url https://"),
        (["--model", " "], "--model is empty; write a provider and its model, such as --model openai:gpt-5-mini"),
    ],
)
def test_invalid_settings_name_the_option(options: list[str], expected: str) -> None:
    own_model = options[0] == "--model"
    model = () if own_model else ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    kind = () if "--agent=structured" in options or own_model else ("--agent", "tool_calling")
    assert expected in refused("run", "q", *model, *kind, *options)


@cases("provider", [one for one in PROVIDERS if one != "local"])
def test_every_provider_takes_the_settings(provider: str) -> None:
    options = AgentOptions(model=f"{provider}:some", temperature=0.5, timeout=9.0, max_reply_tokens=50, system="Hi")
    assert build_executor(options).model == f"{provider}:some"


def test_local_models_take_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "my.gguf"
    file.touch()
    for options in (AgentOptions(gguf=file, temperature=0.5, timeout=9.0), AgentOptions(max_reply_tokens=50)):
        assert build_executor(options).executor.agent.model is not None


# ---- the name of the model


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


def test_provider_has_an_address_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mistral:7b", "qwen3:0.6b", "claude-like"):
        with serving(STRUCTURED) as server:
            ended = command(*ASK, "--model", name, "--base-url", server.url)
            assert (ended.code, server.asked[0]["model"]) == (0, name)
    with serving(STRUCTURED) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:9/v1")
        ended = command(*ASK, "--model", "groq:llama", "--retries", "0")
    assert (ended.code, server.asked) == (1, [])
    assert "llama at http://127.0.0.1:9/v1" in ended.err


@cases("name", ["local", "local:smollm2-135m-instruct", "smollm2-135m-instruct"])
def test_local_names_need_the_weights(pulled: list[str], name: str) -> None:
    assert command(*ASK, "--model", name).code == 1
    assert pulled.pop() == "smollm2-135m-instruct"
    ended = command(*ASK, "--model", name, "--retries", "1")
    error = "graphexec: --retries applies to a server, and this model is local"
    assert (ended.code, ended.err.partition(";")[0]) == (2, error)
    assert pulled == []


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
