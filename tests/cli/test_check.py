"""`graphexec check`: verdicts in every format."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from graphexec.draw.model.picture import COLOURS
from graphexec.verify import Certificate, Finding, check, verify
from graphexec.verify.reports import Subject
from tests.cli.terminals import command
from tests.parameters import cases
from tests.verify.sarif_subset import validate
from tests.verify.writing import WRITER

pytestmark = pytest.mark.usefixtures("folder")


STANDARD = "graphexec.executor:AGENT_EXECUTOR"
BOUNDS = """agents:executor  PROVED  every run ends
  transitions  4*iterations + 2 = 14 (exact)
  model calls  iterations = 3 (exact)
  tool calls   tool_calls = 4 (at most)
  seconds      no bound; set max_execution_time, or Limits(seconds=30)
"""
PROVED = f"{STANDARD}  PROVED  every run ends\n"
STANDARD_BOUNDS = "  model calls  iterations = 15 (exact)\n  tool calls   fan_out*iterations = 15,000 (exact)\n"
UNPROVED = f"{STANDARD}  UNPROVED  it is not known whether every run ends\n"
REFUTED = "  REFUTED  the table allows an endless run, or is invalid\n\n  GX010 at "
INVALID = """lacking:machine  REFUTED  its table cannot be built

  GX002 at criticize: unhandled outcome  lacking.py:5
    criticize may return Good, which no edge takes.
"""
FAN_OUT = [
    "GX013 at dispatch_tools: unbounded fan-out",
    "Set max_fan_out or max_tool_calls (in agent_limits: fan_out, tool_calls), or declare asks=",
]
NOTICE = "::notice title=graphexec::agents:executor: proved, every run ends after at most 14 "
LACKING = "\n::error file=lacking.py,line=5,title=GX002::lacking: GX002 at criticize: "
BOUNDLESS = "::error file=boundless.py,line=4,title=GX016::boundless:executor: GX016 at "


def limits(*several: str) -> list[str]:
    return [option for one in several for option in ("--limit", one)]


# The arguments, the exit code, and parts of the report.
REPORTS = [
    (["agents:executor"], 0, [BOUNDS]),
    ([STANDARD], 0, [PROVED, STANDARD_BOUNDS]),
    (["writing:PERFECTIONIST"], 1, [f"writing:PERFECTIONIST{REFUTED}", "criticize --Poor--> polish  the loop"]),
    (["writing.py:PERFECTIONIST"], 1, [f"writing.py:PERFECTIONIST{REFUTED}", "criticize --Poor--> polish  the loop"]),
    (["refused"], 1, [f"refused{REFUTED}", "criticize --Poor--> polish  the loop"]),
    (["refused.py:executor"], 1, [f"refused.py:executor{REFUTED}", "criticize --Poor--> polish  the loop"]),
    (["lacking:machine"], 1, [INVALID]),
    (["agents", "lacking", "--format", "github"], 1, [NOTICE, LACKING]),
    (["boundless:executor", "--format", "github"], 1, [BOUNDLESS]),
    (["writing:WRITER", *limits("iterations=none")], 1, ["writing:WRITER  REFUTED", "GX016"]),
    # A machine that is bounded by time alone, or that may call any number of tools, is not proved.
    ([STANDARD, *limits("iterations=none", "seconds=60")], 3, [UNPROVED]),
    ([STANDARD, *limits("fan_out=none")], 3, [UNPROVED, *FAN_OUT]),
    ([STANDARD, *limits("fan_out=none", "tool_calls=50")], 0, [PROVED]),
    (["writing:PERFECTIONIST", STANDARD], 1, ["writing:PERFECTIONIST  REFUTED"]),
    (["writing:WRITER", "--strict"], 0, ["writing:WRITER  PROVED"]),
]


@cases(("arguments", "code", "parts"), *REPORTS)
def test_report_has_verdict_bounds_and_findings(arguments: list[str], code: int, parts: list[str]) -> None:
    ended = command("check", *arguments)
    assert (ended.code, ended.err.removeprefix("a module prints\n")) == (code, "")
    first, *others = parts
    assert ended.out.startswith(first)
    assert all(part in ended.out for part in others)
    assert ("GX" in ended.out) is (code > 0)


def test_modules_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = command("check", "agents.py", "writing")
    names = [line.split()[0] for line in ended.out.splitlines() if line.startswith(("agents", "writing"))]
    assert names == ["agents.py:executor", "agents.py:patient", "writing:WRITER", "writing:PERFECTIONIST"]
    assert (ended.code, ended.out.splitlines()[-1]) == (1, "4 machines: 3 proved, 1 refuted")
    module = ModuleType("sourceless")
    monkeypatch.setattr(module, "machine", WRITER, raising=False)
    module.__file__ = None
    monkeypatch.setitem(sys.modules, "sourceless", module)
    ended = command("check", "sourceless")
    assert (ended.code, ended.out.split()[0]) == (0, "sourceless:machine")
    module.__file__ = "gone.py"
    assert command("check", "sourceless").code == 0


def test_json_has_limits_and_places() -> None:
    ended = command("check", "writing:WRITER", "--max-iterations", "2", *limits("revisions=1"), "--format", "json")
    (target,) = json.loads(ended.out)["targets"]
    assert (target["limits"]["iterations"], target["limits"]["revisions"]) == (2, 1)

    def places(target: str, *limits: str) -> dict[str, int]:
        (report,) = json.loads(command("check", target, *limits, "--format", "json").out)["targets"]
        assert {one["place"]["file"] for one in report["findings"]} == {"endless.py"}
        return {one["code"]: one["place"]["line"] for one in report["findings"]}

    assert places("endless.py:extended", "--limit", "fan_out=none") == {"GX015": 5, "GX013": 13}
    assert set(places("endless.py:executor").values()) == {16}
    assert set(places("endless.py:Company.second").values()) == {21}


@cases("how", "text", "json", "sarif")
def test_seconds_are_printed_with_their_assumptions(how: str) -> None:
    ended = command("check", STANDARD, "--limit", "seconds=30", "--format", how)
    (line,) = [line for line in ended.out.splitlines() if "30.05" in line]
    assumed = "nodes, policies and observers return at once and the event loop is not blocked"
    if how == "text":
        assert line == f"  seconds      seconds + 0.05 = 30.05 (at most, if {assumed})"
    else:
        assert f'"assuming": "{assumed}"' in ended.out


def test_certificates_and_sarif_are_valid(folder: Path) -> None:
    assert command("check", "writing:WRITER", "--certificate", "proof.json").code == 0
    check(Certificate.from_json((folder / "proof.json").read_text(encoding="utf-8")), WRITER)
    ended = command("check", "writing:PERFECTIONIST", "--certificate", "none.json")
    assert (ended.code, ended.err) == (1, "graphexec: there is no proof, so none.json is not written\n")
    assert not (folder / "none.json").exists()
    ended = command("check", "writing", "lacking", "--format", "sarif")
    log = json.loads(ended.out)
    validate(log)
    places = [result["locations"][0]["physicalLocation"] for result in log["runs"][0]["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"writing.py", "lacking.py"}
    assert log["runs"][0]["tool"]["driver"]["version"]
    assert ended.code == 1


BROKEN = "broken.py cannot be imported: SyntaxError: invalid syntax (broken.py, line 1)"


def test_load_errors_are_reported_and_hide_no_other_targets() -> None:
    ended = command("check", "writing:PERFECTIONIST", "broken.py", "lacking", "nowhere")
    assert (ended.code, ended.err) == (2, "")
    for part in (
        *("writing:PERFECTIONIST  REFUTED  ", "lacking  REFUTED  its table cannot be built"),
        f"\n\nbroken.py  ERROR  it could not be checked  broken.py:1\n  {BROKEN}\n\n",
        "\n\nnowhere  ERROR  it could not be checked\n  there is no module nowhere here",
        "\n4 machines: 2 refuted, 2 not checked\n",
    ):
        assert part in ended.out
    ended = command("check", "writing:WRITER", "broken.py", "--format", "json")
    document = json.loads(ended.out)
    assert (ended.code, document["status"]) == (2, "error")
    assert [(one["status"], one["error"]) for one in document["targets"]] == [("proved", None), ("error", BROKEN)]
    ended = command("check", "broken.py", "--format", "sarif")
    log = json.loads(ended.out)
    validate(log)
    (invocation,) = log["runs"][0]["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert (ended.code, invocation["executionSuccessful"], notification["level"]) == (2, False, "error")
    assert notification["message"]["text"] == f"broken.py: {BROKEN}"
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "broken.py"
    ended = command("check", "broken.py", "--format", "github")
    assert (ended.code, ended.out) == (2, f"::error file=broken.py,line=1,title=graphexec::broken.py: {BROKEN}\n")


def test_no_report_if_nothing_can_be_loaded() -> None:
    ended = command("check", "broken.py", "nowhere")
    assert (ended.code, ended.out) == (2, "")
    words = [line.split()[:2] for line in ended.err.splitlines()]
    assert words == [["graphexec:", "broken.py"], ["graphexec:", "there"]]
    ended = command("check", "writing:WRITER", "broken.py", "--debug")
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err


@cases(("module", "alias"), ("helped", "helped:AGENT_EXECUTOR"), ("whole.py", "whole.py:mine"))
def test_imported_machines_are_not_checked(module: str, alias: str) -> None:
    ended = command("check", module)
    assert (ended.code, ended.out) == (2, "")
    assert f"{module} defines no machine, it only imports some; name one, such as {alias}" in ended.err
    assert command("check", alias).code == 0
    ended = command("check", "endless.py", "--format", "json")
    assert [one["target"] for one in json.loads(ended.out)["targets"]] == ["endless.py:extended", "endless.py:executor"]
    # But a package may import machines from its modules.
    ended = command("check", "graphexec.executor", "graphexec.executor.nodes", "--format", "json")
    names = {"graphexec.executor:AGENT_EXECUTOR", "graphexec.executor.nodes:AGENT_EXECUTOR"}
    assert names <= {one["target"] for one in json.loads(ended.out)["targets"]}


@cases(
    ("form", "line"),
    ("text", "  GX027 at redact (warning): guard missing on some exits  leaky.py:5\n"),
    ("json", '"code": "GX027"'),
    ("sarif", '"ruleId": "GX027"'),
    ("github", "::warning file=leaky.py,line=5,title=GX027::leaky.py:executor: GX027 at redact: "),
)
def test_unguarded_exit_is_reported(form: str, line: str) -> None:
    ended = command("check", "leaky.py:executor", "--format", form)
    assert ended.code == 0
    assert line in ended.out
    assert "check_return_direct --AgentFinish--> END bypasses it" in ended.out


WRITER_LIMIT, STRICT = ["writing:WRITER", "--limit"], ["writing:WRITER", "--strict", "--ignore"]


@cases(
    ("arguments", "expected"),
    (["."], ". is a folder; name a module or a file in it\n"),
    (["below/"], "below/ is a folder; name a module or a file in it"),
    ([".agents"], ".agents is neither a module nor a Python file; write module:object or file.py:object"),
    (["nowhere"], "there is no module nowhere here"),
    (["notes.ipynb"], "notes.ipynb is a notebook, which is not read; export it"),
    (["empty"], "empty has no graph and no executor at its top level; write one into it, such as executor = "),
    (["agents:number"], "agents:number is an int, not a graph; name a Graph"),
    (["agents:executor", "--max-iterations", "3"], "agents:executor has its own limits; set them there"),
    ([*WRITER_LIMIT, "revisions"], "--limit revisions has no value; write --limit NAME=N, such as"),
    ([*WRITER_LIMIT, "iterations=many"], "the limit iterations is 'many'; pass a number, or none"),
    ([*WRITER_LIMIT, "iterations=-1"], "the limit iterations is -1; give 0 or more"),
    ([*WRITER_LIMIT, "revision=1"], "revision is not a limit of this machine; did you mean revisions?"),
    ([*WRITER_LIMIT, "iterations=1", "--max-iterations=2"], "the limit iterations is set twice"),
    (["writing", "--certificate", "proof.json"], "writes one proof, and there are 2; name one machine"),
    (["writing:WRITER", "--certificate", "no/proof.json"], "no/proof.json cannot be written"),
    (["writing:WRITER", "--ignore", "GX027"], "graphexec: --ignore has no effect without --strict; add --strict\n"),
    ([*STRICT, "GX0027"], "graphexec: --ignore GX0027 is not the code of a finding; did you mean GX027?\n"),
    ([*STRICT, "guards"], "graphexec: --ignore guards is not the code of a finding; pass one such as GX027\n"),
    (["missing:machine", "--strict"], "there is no module missing here"),
    (["writing", "--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'text', 'json', 'sarif'"),
    ([], "Missing argument 'TARGET"),
)
def test_wrong_usage_is_one_line_and_exits_2(arguments: list[str], expected: str) -> None:
    Path("below").mkdir(exist_ok=True)
    ended = command("check", *arguments)
    assert (ended.code, ended.out) == (2, "")
    report = ended.err.removeprefix("a module prints\n")
    assert expected in report
    assert report.count("\n") == 1


@cases("target", "writing:PERFECTIONIST", "refused:executor")
def test_findings_are_drawn_in_red(target: str) -> None:
    ended = command("draw", target)
    assert ended.code == 0
    assert "GX010" in ended.out
    assert "linkStyle 4,5 stroke:" in ended.out
    assert f'color="{COLOURS["red"]}"' in command("draw", target, "--format", "dot").out
    assert COLOURS["red"] not in command("draw", "writing:WRITER", "--format", "dot").out


TABLE = "faulty.py cannot be imported: its table cannot be built (faulty.py, line 5):"
REFUSED = "refused cannot be imported: its executor is refused (refused.py, line 6):"


@cases(
    ("arguments", "error", "findings"),
    (["draw", "faulty.py:machine"], TABLE, ["  GX002", "  GX002", "  GX005"]),
    (["run", "refused:executor", "q"], REFUSED, ["  GX010 at criticize"]),
)
def test_each_error_of_a_table_has_a_line(arguments: list[str], error: str, findings: list[str]) -> None:
    ended = command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    first, *lines = ended.err.splitlines()
    assert first == f"graphexec: {error}"
    assert [line.split(":")[0] for line in lines] == findings


def test_invalid_table_cannot_be_drawn() -> None:
    ended = command("draw", "lacking:machine")
    assert (ended.code, ended.out) == (2, "")
    assert "criticize may return Good, which no edge takes" in ended.err


IMPORTS_ONLY = "helped defines no machine, it only imports some; name one, such as helped:AGENT_EXECUTOR\n"


@cases("arguments", ["draw"], ["export", "--format", "tla"])
@cases(
    ("target", "error"),
    ("agents.py", "agents.py names a file, not a machine; write agents.py:executor or agents.py:patient\n"),
    ("helped", IMPORTS_ONLY),
    ("empty.py", "empty.py has no graph and no executor at its top level"),
)
def test_module_without_object_lists_its_machines(arguments: list[str], target: str, error: str) -> None:
    ended = command(*arguments, target)
    assert (ended.code, ended.out) == (2, "")
    assert error in ended.err
    assert target != "helped" or ended.err == f"graphexec: {error}"


@cases(
    ("options", "code"),
    ((), 0),
    (("--strict",), 1),
    (("--strict", "--ignore", "GX013"), 0),
    (("--strict", "--ignore", "GX027"), 1),
    (("--strict", "--ignore=GX027", "--ignore=GX013"), 0),
    (("--strict", "--ignore=GX027,GX013"), 0),
)
def test_strict_makes_warnings_fail(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int) -> None:
    warning = Finding("GX013", "warning", "write", None, "it may ask often", "say how often")
    subject = Subject("WRITER", (warning,), verify(WRITER))

    def subjects_at(*_: object) -> tuple[list[Subject], list[Exception]]:
        return [subject], []

    monkeypatch.setattr("graphexec.cli.check_targets.subjects_at", subjects_at)
    ended = command("check", "writing:WRITER", *options)
    report = "graphexec: --strict allows no warnings: GX013; fix them, or pass --ignore GX013\n"
    assert (ended.code, ended.err) == (code, report if code else "")
