"""`graphexec audit`: traces from files, against certificates from files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conversations import answer_text, serving, tool_call_text
from tests.cli.terminals import command, refused
from tests.verify.traces import Trace, acting, proof_of, trace_of


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.chdir(tmp_path)
    executor = acting([2])
    Path("proof.json").write_text(proof_of(executor).to_json(), encoding="utf-8")
    records = trace_of(executor)
    write_trace(records)
    return records


def write_trace(records: Trace) -> None:
    Path("trace.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


@pytest.mark.usefixtures("trace")
def test_verdict_of_a_trace(monkeypatch: pytest.MonkeyPatch, trace: Trace) -> None:
    ended = command("audit", "trace.jsonl", "proof.json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "trace.jsonl  CONFORMS  6 transitions of at most 62; answered\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, trace))))
    assert command("audit", "-", "proof.json").out.startswith("standard input  CONFORMS  ")
    write_trace([record for record in trace if record.get("node") != "dispatch_tools"])
    ended = command("audit", "trace.jsonl", "proof.json")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith("trace.jsonl  DOES NOT CONFORM\n  line 7: ")
    assert "\n  line 8: check_return_direct is entered, but dispatch_tools was due; " in ended.out


def test_output_of_run_conforms_to_its_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving([tool_call_text("calculator", expression="1 + 1"), answer_text("2")]) as server:
        options = ("--model", "m", "--base-url", server.url, "--agent", "structured", "--max-seconds", "600")
        ran = command("run", "What is 1 + 1?", *options, "--json", "--certificate", "proof.json")
    assert ran.code == 0
    Path("trace.jsonl").write_text(ran.out, encoding="utf-8")
    assert command("audit", "trace.jsonl", "proof.json").code == 0


@pytest.mark.usefixtures("trace")
def test_changed_certificate_is_refused() -> None:
    proof = Path("proof.json").read_text(encoding="utf-8")
    Path("proof.json").write_text(proof.replace("Replied", "Answered"), encoding="utf-8")
    ended = command("audit", "trace.jsonl", "proof.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "graphexec: proof.json: this certificate's flow does not match its digest; pass the file that "
        "graphexec check --certificate wrote\n"
    )


@pytest.mark.usefixtures("trace")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing.jsonl", "proof.json"], "nothing.jsonl cannot be read"),
        (["trace.jsonl", "nothing.json"], "nothing.json cannot be read"),
        (["proof.json", "proof.json"], "line 1 of proof.json is not a record; pass the file that graphexec run"),
        (["trace.jsonl", "trace.jsonl"], "pass the file that graphexec check --certificate wrote"),
        (["trace.jsonl"], "Missing argument 'CERTIFICATE'"),
    ],
)
def test_wrong_usage_is_one_line_and_exits_2(arguments: list[str], expected: str) -> None:
    assert expected in refused("audit", *arguments)
