"""`graphexec check` and `draw` with the graphs of LangGraph and pydantic-graph."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.machines_of_mine import FILES, lay_out
from tests.cli.terminals import command, refused
from tests.cli.test_commands import python
from tests.parameters import cases, read_tables
from tests.verify.sarif_subset import validate

# The packages are imported by the programs of the tests, as that takes seconds.
needed = ("langchain", "langgraph", "pydantic_graph")
pytestmark = [
    pytest.mark.medium,
    pytest.mark.skipif(not all(map(find_spec, needed)), reason=f"needs {', '.join(needed)}"),
    pytest.mark.usefixtures("folder"),
]

TABLES = read_tables(__file__)
WORKFLOW = Path(__file__).parents[2] / "examples" / "github-workflow.yml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in TABLES["projects"].items():
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "inside.py").write_text("from loops import graph\n", encoding="utf-8")
    return lay_out(tmp_path, monkeypatch, {"writing": FILES["writing"], **TABLES["files"]})


LOOP = "plan -> act -> plan"
DEFAULT = "only recursion_limit=10,007 (the default) ends the loop"

# The arguments, the exit code, and parts of the report.
REPORTS = [
    (
        ["loops.py:graph"],
        1,
        [f"loops.py:graph  REFUTED  {DEFAULT} {LOOP}", "GX040 at plan: ", "  plan --> act  the loop"],
    ),
    (["loops"], 1, ["loops:graph  REFUTED", "loops:short  REFUTED", "\n2 machines: 2 refuted\n"]),
    (["loops:builder"], 1, ["loops:builder  REFUTED"]),
    # A machine beside it, and two graphs of one module: each once.
    (["writing:WRITER", "loops.py:short"], 1, ["writing:WRITER  PROVED", "2 machines: 1 proved, 1 refuted"]),
    (["unclear:graph"], 3, ["unclear:graph  UNPROVED", "GX044 (warning): undeclared route  unclear.py:4"]),
    (["counted:graph"], 3, ["counted:graph  UNPROVED", "GX042 at plan: ", "counted in code, by rounds;"]),
    (["guarded:graph"], 0, ["guarded:graph  PROVED  every run ends: ModelCallLimitMiddleware(run_limit=20, "]),
    (["endless:within"], 1, ["endless:within  REFUTED  no run ends", "GX041 at first: no way to the end"]),
    (["endless:graph"], 1, ["  REFUTED  in team: ", "GX041 at team.first", "GX045 at quiet (warning): "]),
    (["stepwise:graph"], 1, ["stepwise:graph  REFUTED  nothing ends the loop", "  Ask --> Check", "stepwise.py:8"]),
    (["good.json"], 0, [f"good.json:{name}  PROVED" for name in ("line", "later", "opened", "opened_later")]),
    (["good.json:later"], 0, ["good.json:later  PROVED  every run ends within 2 steps"]),
    (["mixed.json:loop"], 1, [f"mixed.json:loop  REFUTED  {DEFAULT}"]),
    (["nested.json"], 1, ["nested.json:loop  REFUTED"]),
    # The limit on rounds: what the guard or the limit on steps allows.
    (["loops:short", "--max-rounds", "5"], 0, ["loops:short  PROVED", "GX040 at plan (warning)"]),
    (["loops:short", "--max-rounds", "5", "--strict"], 1, ["loops:short  PROVED"]),
    (["loops:short", "--max-rounds", "4"], 1, ["GX043 at plan: ", "has up to 5 rounds, and 4 are allowed"]),
    (["counted:graph", "--max-rounds", "5"], 0, ["counted:graph  PROVED", "GX042 at plan (warning)"]),
    (["counted:graph", "--max-rounds", "4"], 1, ["counted:graph  REFUTED", "GX043 at plan: "]),
    (["loops:graph", "--max-rounds", "50"], 1, ["loops:graph  REFUTED", "has up to 5,003 rounds, and 50 are allowed"]),
    (["guarded:graph", "--max-rounds", "20"], 0, ["guarded:graph  PROVED"]),
    (["guarded:graph", "--max-rounds", "19"], 1, ["guarded:graph  REFUTED", "GX043 at "]),
    (["stepwise:graph", "--max-rounds", "50"], 1, ["GX040 at "]),
    (["endless:within", "--max-rounds", "9999"], 1, ["GX041 at first"]),
]


@cases(("arguments", "code", "parts"), *REPORTS)
def test_graphs_are_reported_in_their_own_terms(arguments: list[str], code: int, parts: list[str]) -> None:
    ended = command("check", *arguments)
    assert [part for part in parts if part not in ended.out] == [], ended.out
    allowed = "graphexec: --strict allows no warnings" if "--strict" in arguments else "a module prints"
    assert (ended.code, [line for line in ended.err.splitlines() if not line.startswith(allowed)]) == (code, [])


def test_graphs_that_cannot_be_read_hide_no_others() -> None:
    ended = command("check", "mixed.json")
    assert (ended.code, ended.err) == (2, "")
    assert "\n7 machines: 1 refuted, 6 not checked\n" in ended.out
    for part in (
        "factories.py:needy is a function that needs user and config; ",
        "factories.py:served is a function that needs runtime; ",
        "factories.py:keyed raised KeyError: 'SOME_KEY' (factories.py, line 35); the env of mixed.json is not read",
        "mixed.json:other (./factories.py:other) is an int, not a graph of LangGraph\n",
        "mixed.json:script is in ./src/agent.ts; only graphs that are written in Python",
        "mixed.json:functional cannot be read: a functional workflow (@entrypoint) declares no edges",
    ):
        assert part in ended.out


def test_file_called_as_its_package_does_not_hide_it(folder: Path) -> None:
    package = folder / "src" / "team"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("from loops import graph\n", encoding="utf-8")
    for name in ("team", "other"):
        (package / f"{name}.py").write_text("from team.parts import graph\n", encoding="utf-8")
    graphs = {name: f"./src/team/{name}.py:graph" for name in ("team", "other")}
    (folder / "team.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}), encoding="utf-8")
    ended = command("check", "team.json")
    assert (ended.code, ended.err) == (1, ""), ended.out
    assert "\n2 machines: 2 refuted\n" in ended.out


@cases(
    ("arguments", "expected"),
    (["nowhere.json"], "nowhere.json cannot be read: No such file"),
    (["empty.json"], "empty.json is not a langgraph.json: graphs: "),
    (["nameless.json"], "'./loops.py' does not name an object; write module:object, such as agent.py:graph"),
    (["broken.json"], "broken.json is not a langgraph.json: it: Invalid JSON"),
    (["good.json:lines"], "good.json has no graph lines; did you mean line?"),
    (["loops:graph", "--max-iterations", "5"], "loops:graph is a graph of another library, without such limits"),
    (["writing:WRITER", "--max-rounds", "5"], "--max-rounds is for graphs of LangGraph and pydantic-graph"),
)
def test_wrong_usage_is_one_line(arguments: list[str], expected: str) -> None:
    assert expected in refused("check", *arguments)


def test_programs_read_answers() -> None:
    ended = command("check", "loops:short", "stepwise:graph", "--format", "json")
    short, stepwise = json.loads(ended.out)["targets"]
    answer = short["declared"].pop("answer")
    assert answer == f"only recursion_limit=11 ends the loop {LOOP}, after 5 rounds, with GraphRecursionError"
    expected = {"library": "LangGraph", "ending": "limited", "loops": [["plan", "act"]], "limit": 11, "rounds": 5}
    assert short["declared"] == {**expected, "longest": None, "notes": []}
    assert short["findings"][0]["place"] == {"file": "loops.py", "line": 10}
    assert [step["target"] for step in short["findings"][0]["witness"]["loop"]] == ["act", "plan"]
    assert (stepwise["declared"]["library"], stepwise["declared"]["limit"]) == ("pydantic-graph", None)
    log = json.loads(command("check", "loops", "endless", "unclear", "mixed.json", "--format", "sarif").out)
    validate(log)
    [run] = log["runs"]
    assert {one["ruleId"] for one in run["results"]} == {"GX040", "GX041", "GX044", "GX045"}
    # The shared node of both modules is in the file where its function is.
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "loops.py", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 10}}
    lines = command("check", "loops:graph", "good.json:line", "--format", "github").out.splitlines()
    assert lines[0].startswith("::error file=loops.py,line=10,title=GX040::loops:graph: GX040 at plan: only ")
    assert lines[1] == "::notice title=graphexec::good.json:line: every run ends within 2 steps"


def test_loops_are_drawn_in_red(folder: Path) -> None:
    drawn = command("draw", "loops:graph")
    assert (drawn.code, drawn.err) == (0, "")
    edges = dict(enumerate(re.findall(r"(\w+)(?:\(\(.*?\)\))? --> (\w+)", drawn.out)))
    [red] = re.findall(r"linkStyle ([\d,]+) stroke:#d62728", drawn.out)
    assert [edges[int(number)] for number in red.split(",")] == [("n0", "n1"), ("n1", "n0")]
    assert {"plan", "act"} == {*re.findall(r"<b>(\w+)</b>", drawn.out)}
    text = command("draw", "one.json", "--format", "text").out
    assert "│ !! plan │" in text.replace("╎", "│")
    assert DEFAULT.removeprefix("only ") in " ".join(text.split())
    assert command("draw", "endless.py:graph", "-o", "graph.svg").code == 0
    picture = (folder / "graph.svg").read_text(encoding="utf-8")
    assert 'data-cluster="team"' in picture
    assert picture.count('class="edge red" data-edge=') == 2
    assert "red" not in command("draw", "good.json:line").out
    assert "good.json has 4 graphs; write good.json:line or " in refused("draw", "good.json")
    assert "functional:graph cannot be read" in refused("draw", "functional:graph")


def test_langgraph_is_imported_for_its_graphs_only() -> None:
    code = (
        "import sys; from graphexec.cli.check_targets import subjects_at; subjects_at(['graphexec.executor'], None); "
        "print(*{one.partition('.')[0] for one in sys.modules} & {'langgraph', 'langchain_core', 'pydantic_graph'})"
    )
    assert python(code).stdout == "\n"


@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="needs check-jsonschema")
def test_workflow_is_valid_and_its_commands_run(folder: Path) -> None:
    schema = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    checked = subprocess.run(schema, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout
    (folder / "langgraph.json").write_text(TABLES["projects"]["one"], encoding="utf-8")
    commands = re.findall(r"run: graphexec ([^>\n]+)", WORKFLOW.read_text(encoding="utf-8"))
    assert [command(*one.split()).code for one in commands] == [1, 1]
