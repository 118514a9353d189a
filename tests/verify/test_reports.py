"""Verdicts as text, JSON, SARIF and annotations."""

import dataclasses
import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Graph, GraphError, Limits, edges, graph, on, wrap
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel.node import Edge
from graphexec.verify import CODES, Finding, Witness, findings_of, verify
from graphexec.verify.proof.flow import Transition
from graphexec.verify.reports import (
    SourceLocation,
    Subject,
    document,
    github,
    place_of,
    sarif,
    status_of,
    subject_of,
    text,
)
from graphexec.verify.reports.subject import qualified
from tests.parameters import cases
from tests.verify.proofs import require
from tests.verify.sarif_subset import validate
from tests.verify.writing import PERFECTIONIST, WRITER, Poor, polish, revise

ROOT = str(Path(__file__).parents[2])
ENDLESS = subject_of("writing:PERFECTIONIST", verify(PERFECTIONIST))
PROVED = subject_of("writing:WRITER", verify(WRITER))
LINE = place_of(polish.function)


def built(found: GraphError) -> Subject:
    return Subject("my_agent", findings_of(found), place=SourceLocation(f"{ROOT}/my_agent.py", 7))


def refused() -> Subject:
    with pytest.raises(GraphError) as error:
        graph(edges(polish, on(Poor, polish)), start=polish)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    return built(error.value)


EVERY = [ENDLESS, PROVED, refused()]


def test_proof_report_shows_bounds_and_assumptions() -> None:
    assert text([PROVED], root=ROOT) == (
        "writing:WRITER  PROVED  every run ends\n"
        f"  transitions  {verify(WRITER).bounds.transitions}\n"  # type: ignore[union-attr] # pyright: ignore[reportOptionalMemberAccess]
        "  seconds      no bound; set max_execution_time, or Limits(seconds=30)\n"
        "  assuming     " + "\n               ".join(verify(WRITER).assumptions) + "\n"
    )


def test_refutation_report_shows_path_loop_and_remedy() -> None:
    output = text([ENDLESS], root=ROOT)
    first, finding = output.split("\n\n")
    assert first == "writing:PERFECTIONIST  REFUTED  the table allows an endless run, or is invalid"
    head, *lines = [line.strip() for line in finding.splitlines()]
    assert re.fullmatch(r"GX010 at \w+: loop spends no budget  tests/verify/writing.py:\d+", head)
    assert lines[0] == "The table alone does not end this loop; it spends no budget."
    assert lines[1:-1] == [
        "write --Text--> criticize   the path",
        "criticize --Poor--> polish  the loop",
        "polish --Text--> criticize",
    ]
    assert "polish" in lines[-1]


def _step(source: str, target: str) -> Transition:
    return Transition(source, "Done", target)


def _lines(stem: Sequence[Transition], loop: Sequence[Transition]) -> list[str]:
    """The lines of a finding with this witness, below its first."""
    around = ", ".join(dict.fromkeys(map(str, loop)))
    fact = f"the table alone does not end this loop: {around}; it spends no budget"
    finding = Finding("GX010", "error", "a", None, fact, "fix it", Witness(tuple(stem), tuple(loop), Limits()))
    return [line.strip() for line in text([Subject("x", (finding,))]).splitlines()[3:]]


def test_the_rounds_of_a_loop_are_counted() -> None:
    assert _lines([], [_step("a", "a")]) == [
        "The table alone does not end this loop: a --Done--> a; it spends no budget.",
        "Fix it.",
    ]
    rounds = [_step("a", "b"), _step("b", "a")] * 3
    assert _lines([_step("s", "a"), *rounds], [*rounds, _step("a", "c"), *[_step("c", "c")] * 2, _step("c", "a")]) == [
        "The table alone does not end this loop; it spends no budget.",
        "s --Done--> a  the path",
        "a --Done--> b",
        "b --Done--> a  these 2, 3 times",
        "a --Done--> b  the loop",
        "b --Done--> a  these 2, 3 times",
        "a --Done--> c",
        "c --Done--> c  2 times",
        "c --Done--> a",
        "Fix it.",
    ]


def test_refused_table_is_located_and_counted() -> None:
    output = text([refused()], root=ROOT)
    assert output.startswith(
        "my_agent  REFUTED  its table cannot be built\n\n  GX002 at polish: unhandled outcome  my_agent.py:7\n"
    )
    assert "polish may return Text, which no edge takes." in output
    assert text(EVERY).splitlines()[-1] == "3 machines: 1 proved, 2 refuted"
    assert (status_of(EVERY), status_of([PROVED])) == ("refuted", "proved")


def test_json_report_has_all_documented_fields() -> None:
    output: dict[str, Any] = json.loads(document(EVERY, root=ROOT))
    assert (output["version"], output["status"]) == (1, "refuted")
    endless, proved, table = output["targets"]
    assert [one["status"] for one in output["targets"]] == ["refuted", "proved", "refuted"]
    assert proved["bounds"]["transitions"]["exact"] is True
    assert proved["limits"] == {
        **dict.fromkeys(proved["limits"]),
        "iterations": 15,
        "fan_out": 1_000,
        "depth": 8,
        "nested_runs": 1_000,
    }
    assert proved["assumptions"]
    (finding,) = endless["findings"]
    assert (finding["code"], finding["title"]) == ("GX010", CODES["GX010"])
    assert finding["text"] == str(ENDLESS.findings[0])
    assert finding["place"]["file"] == "tests/verify/writing.py"
    assert [step["outcome"] for step in finding["witness"]["loop"]] == ["Poor", "Text"]
    assert table["bounds"] is None
    assert table["limits"] is None
    assert {one["place"]["line"] for one in table["findings"]} == {7}


def test_sarif_log_is_valid() -> None:
    log = json.loads(sarif(EVERY, root=ROOT, version="0.1.0"))
    validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(CODES)
    assert all(re.fullmatch(r"([A-Z][a-z]*)+", rule["name"]) for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    (flow,) = run["results"][0]["codeFlows"]
    steps = flow["threadFlows"][0]["locations"]
    assert [step["nestingLevel"] for step in steps] == [0, 1, 1]
    assert steps[1]["location"]["message"]["text"] == "criticize --Poor--> polish"
    assert steps[2]["location"]["logicalLocations"][0]["fullyQualifiedName"] == "tests.verify.writing.polish"
    physical = steps[2]["location"]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "tests/verify/writing.py", "uriBaseId": "%SRCROOT%"}
    assert LINE is not None
    assert physical["region"] == {"startLine": LINE.line}


def test_a_finding_keeps_its_fingerprint_when_lines_move() -> None:
    def prints(subject: Subject) -> list[str]:
        results = json.loads(sarif([subject], root=ROOT))["runs"][0]["results"]
        return [result["partialFingerprints"]["graphexecFinding/v1"] for result in results]

    table = refused()
    assert prints(table) == prints(Subject(table.name, table.findings, place=SourceLocation("elsewhere.py", 70)))
    assert len(set(prints(table))) == len(table.findings)


@cases(
    ("file", "artifact"),
    ("/home/me/a b.py", {"uri": "a%20b.py", "uriBaseId": "%SRCROOT%"}),
    ("/opt/lib/x.py", {"uri": "file:///opt/lib/x.py"}),
    ("C:\\code\\x.py", {"uri": "file:///C:/code/x.py"}),
)
def test_a_place_is_a_uri(file: str, artifact: dict[str, str]) -> None:
    subject = Subject("x", refused().findings, place=SourceLocation(file, 1))
    result = json.loads(sarif([subject], root="/home/me/"))["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == artifact


def test_annotations_are_located_at_nodes() -> None:
    endless, proved, table, *_ = github(EVERY, root=ROOT).splitlines()
    assert re.match(
        r"::error file=tests/verify/writing.py,line=\d+,title=GX010::writing:PERFECTIONIST: GX010 at ", endless
    )
    assert proved.startswith("::notice title=graphexec::writing:WRITER: proved, every run ends after at most ")
    assert table.startswith("::error file=my_agent.py,line=7,title=GX002::my_agent: GX002 at polish")


@given(fact=st.text(), file=st.text(min_size=1), name=st.text())
def test_annotation_is_always_one_line(fact: str, file: str, name: str) -> None:
    finding = Finding("GX010", "error", None, None, fact, "fix it")
    output = github([Subject(name, (finding,), place=SourceLocation(file, 1))])
    found = require(re.fullmatch(r"::error file=([^,:\r\n]*),line=1,title=GX010::([^\r\n]*)\n", output))
    assert _plain(found[1]) == file.replace("\\", "/")
    assert _plain(found[2]) == f"{name}: {finding}"


def _plain(escaped: str) -> str:
    """As the runner reads it."""
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        escaped = escaped.replace(code, character)
    return escaped


def test_finding_is_located_at_first_user_node_of_loop() -> None:
    verdict = require(ENDLESS.verdict)
    home, named = f"{ROOT}/tests", SourceLocation(f"{ROOT}/tests/verify/writing.py", 3)
    loop = (_step("plan", "polish"), _step("polish", "plan"))
    finding = Finding("GX010", "error", "plan", None, "a fact", "fix it", Witness((), loop, Limits()))
    polish = PERFECTIONIST["polish"]
    polished = [Edge("polish", outcome, "END") for outcome in polish.outcomes]
    mixed: Graph[Any, Any] = Graph([*AGENT_EXECUTOR, polish], [*AGENT_EXECUTOR.edges, *polished], AGENT_EXECUTOR.start)
    subject = Subject("x", (finding,), dataclasses.replace(verdict, graph=mixed), named)
    assert subject.place_of(finding, home) == LINE
    without = Finding("GX013", "warning", "plan", None, "a fact", "fix it")
    assert subject.place_of(without, home) == named
    # Nor is what is installed, though it be in a folder of the user's.
    own = require(place_of(AGENT_EXECUTOR["plan"].function))
    assert SourceLocation("/me/.venv/lib/site-packages/graphexec/executor/nodes.py", 9).is_inside("/me") is False
    assert SourceLocation("/me/my_agent.py", 9).is_inside("/me") is True
    assert Subject("x", (without,), verify(AGENT_EXECUTOR)).place_of(without, home) == own


def test_node_is_located_at_its_function() -> None:
    wrapped = wrap(WRITER.with_settings(), revise, before=lambda poor: poor)
    assert place_of(wrapped["revise"].function) == place_of(revise.function)
    assert qualified(wrapped["revise"].function) == "tests.verify.writing.revise"
    function = AGENT_EXECUTOR["plan"].function
    assert place_of(functools.partial(function, agent=None)) == place_of(function)
    assert place_of(len) is None


def test_library_fault_is_located_at_machine() -> None:
    subject = subject_of(
        "my_agent:machine", verify(AGENT_EXECUTOR, Limits(iterations=None)), SourceLocation("/me/my_agent.py", 1)
    )
    assert subject.findings
    assert {subject.place_of(one, "/me") for one in subject.findings} == {SourceLocation("/me/my_agent.py", 1)}
    assert subject.place_of_nodes(["plan"], "/elsewhere") == place_of(AGENT_EXECUTOR["plan"].function)


def test_load_errors_appear_in_every_format() -> None:
    lost = Subject("lost.py", (), error="lost.py cannot be imported", place=SourceLocation(f"{ROOT}/lost.py", 4))
    both = [PROVED, lost, Subject("nowhere", (), error="there is no module nowhere")]
    assert (lost.status, status_of([*both, ENDLESS])) == ("error", "error")
    assert (
        "\n\nlost.py  ERROR  it could not be checked  lost.py:4\n  lost.py cannot be imported\n\n"
        "nowhere  ERROR  it could not be checked\n  there is no module nowhere\n\n3 machines: 1 proved, 2 not checked\n"
    ) in text(both, root=ROOT)
    proved, entry, other = json.loads(document(both, root=ROOT))["targets"]
    assert (proved["error"], entry["error"]) == (None, "lost.py cannot be imported")
    assert (entry["place"], other["place"]) == ({"file": "lost.py", "line": 4}, None)
    log = json.loads(sarif(both, root=ROOT))
    validate(log)
    (invocation,) = log["runs"][0]["invocations"]
    output = [one["message"]["text"] for one in invocation["toolExecutionNotifications"]]
    assert output == ["lost.py: lost.py cannot be imported", "nowhere: there is no module nowhere"]
    assert json.loads(sarif([PROVED]))["runs"][0]["invocations"] == [{"executionSuccessful": True}]
    assert github(both, root=ROOT).splitlines()[1:] == [
        "::error file=lost.py,line=4,title=graphexec::lost.py: lost.py cannot be imported",
        "::error title=graphexec::nowhere: there is no module nowhere",
    ]


def test_every_code_is_reported() -> None:
    findings = tuple(Finding(code, "warning", None, None, "a fact", "fix it") for code in CODES)
    subject = [Subject("x", findings)]
    assert all(f"{code} (warning): {CODES[code]}" in text(subject) for code in CODES)
    validate(json.loads(sarif(subject)))
    assert len(json.loads(document(subject))["targets"][0]["findings"]) == len(CODES)
    assert github(subject).count("::warning title=") == len(CODES)
