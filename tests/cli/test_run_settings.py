"""`graphexec run`: the instructions, the sampling and the examples of the built-in agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphexec.cli.runs.building import AgentOptions, build_executor
from graphexec.models.provider_names import PROVIDERS
from tests.cli.conversations import Conversation, Silence, answer_text, native_tool_call, serving
from tests.cli.terminals import Ended, command, refused
from tests.cli.test_run_options import SAYS
from tests.parameters import cases

EXAMPLE = 'What is 2 + 3? => calculator {"expression": "2 + 3"} => 5 => It is 5.'


def ask(server: Conversation, *options: str, agent: str = "tool_calling") -> Ended:
    return command("run", "q", "--model", "m", "--base-url", server.url, "--agent", agent, *options)


def last_request(server: Conversation) -> dict[str, Any]:
    return server.asked[-1]


def test_model_settings_are_sent() -> None:
    with serving(["yes"]) as server:
        ended = ask(server, "--temperature", "0.25", "--max-reply-tokens", "77", "--system", "Be {brief}.")
    body = last_request(server)
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    assert (body["temperature"], 77 in (body.get("max_tokens"), body.get("max_completion_tokens"))) == (0.25, True)
    assert body["messages"][0] == {"role": "system", "content": "Be {brief}."}


@cases(("limit", "sent"), [(64, 64), (4096, 4096), (100_000, None)])
def test_token_limit_of_the_run_caps_each_reply(limit: int, sent: int | None) -> None:
    with serving([native_tool_call("calculator", expression="1 + 1"), "two"]) as server:
        ended = ask(server, "--max-tokens", str(limit))
    body = last_request(server)
    assert body.get("max_tokens", body.get("max_completion_tokens")) == sent
    stopped = limit < 110
    assert (ended.code, "the limit of 64 tokens was reached" in ended.err) == ((3, True) if stopped else (0, False))


@cases("agent", SAYS)
def test_every_agent_follows_the_system_text(agent: str) -> None:
    _, answer = SAYS[agent]
    with serving([answer]) as server:
        ended = ask(server, "--system", 'Speak {"like"} a pirate.', agent=agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert 'Speak {"like"} a pirate.' in " ".join(message["content"] for message in last_request(server)["messages"])


def test_timeout_limits_a_request() -> None:
    with serving([Silence()]) as server:
        ended = ask(server, "--timeout", "0.2", "--retries", "0")
    assert (ended.code, ended.out) == (1, "")
    assert "did not answer within 0.2 s" in ended.err
    assert "allow a longer one with --timeout" in ended.err


def test_examples_are_shown_to_the_model() -> None:
    with serving([answer_text("yes")]) as server:
        ended = ask(
            server, "--example", EXAMPLE, "--example", "Hi! => Hello!", "--example", "Day? => today => Monday",
            agent="structured",
        )  # fmt: skip
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    shown = json.dumps(last_request(server)["messages"])
    for piece in ("What is 2 + 3?", "2 + 3", "It is 5.", "Hi!", "Hello!", "Day?", "Monday"):
        assert piece in shown
    assert "How many kilometers" not in shown
    with serving([answer_text("yes")]) as server:
        ended = ask(server, "--example", 'Twice 5? => calculator {"expression": "2 * 5"}', agent="structured")
    assert (ended.code, ended.out) == (0, "yes\n"), ended.err
    shown = json.dumps(last_request(server)["messages"])
    assert "Twice 5?" in shown
    assert "2 * 5" in shown


@cases("agent", [one for one in SAYS if one != "structured"])
def test_other_agents_show_the_calls_of_examples(agent: str) -> None:
    with serving([SAYS[agent][1]]) as server:
        ended = ask(server, "--example", 'Twice 5? => calculator {"expression": "2 * 5"} => 10', agent=agent)
    assert (ended.code, ended.out) == (0, "It is 1776.\n"), ended.err
    assert "2 * 5" in json.dumps(last_request(server))


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
        (
            ["--limit", "iterations=none"],
            "with --limit iterations=none, a run may not end; set a limit, such as --max-iter",
        ),
        (["--example", "Hello => Hi!"], "--example 'Hello' has no call, and only the structured agent shows such"),
        (
            ["--agent=structured", "--example", "Hi"],
            "--example 'Hi' is not a question with its solution; write 'QUESTI",
        ),
        (["--agent=structured", "--example", "q => calc {} => 1"], "which is not a call of a tool (calculator, "),
        (["--agent=structured", "--example", "q => today {] => 1"], "--example: the arguments of today are not JSON"),
        (["--agent=structured", "--example", 'q => today {"a": 1} => 1'], "--example: today has no argument a; it has"),
        (
            ["--model", "azure:gpt-5"],
            "and Azure needs an address of its own; write --model DEPLOYMENT --base-url https://",
        ),
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
