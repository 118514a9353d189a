"""Every example runs as a user runs it, and prints what it is known to print."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from graphexec.executor import STRICT_AGENT_EXECUTOR
from tests.parameters import mark_except

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "plan_and_execute": """\
1. Find the population of Malta.
2. Find its area.
3. Divide the one by the other.
population(Malta) -> 563443
area(Malta) -> 316
About 1783 people live on each square kilometre of Malta.
PROVED
  transitions: 4*iterations + 3 = 27 (exact)
  model calls: iterations + 1 = 7 (exact)
  tool calls: iterations = 6 (exact)
  seconds: no bound
  3 exits: AgentFinish, StoppedResponse, ParseError raised by parse
  assuming: 6 things (see verdict.assumptions, or graphexec check)
""",
    "react": """\
population(Lisbon) -> 567131
population(Porto) -> 248769
Lisbon, with 567131 people to Porto's 248769.
""",
    "tool_calling": """\
weather({'city': 'Oslo'}) -> 4 °C
weather({'city': 'Rome', 'unit': 'F'}) -> 66 °F
It is 4 °C in Oslo and 66 °F in Rome.
2 model calls, 2 tool calls, ended: finished
""",
    "orders": """\
PROVED
  transitions: payments + 2 = 5 (exact)
  payments: payments = 3 (at most)
  seconds: no bound
  assuming: 5 things (see verdict.assumptions, or graphexec check)
Shipped(parcel='lamp-1') after 2 payments, 0.5 in fees
Cancelled(order=Order(article='chair', price=70, cards=('second',)), reason='sold out')
reserve -> pay
pay -> pay
pay -> pay
pay -> pay
pay -> END
the limit of 3 payments was reached (3 spent)
{'lamp': 0, 'chair': 0}
""",
    "own_node": """\
delete_file(notes.txt) -> notes.txt is protected.
delete_file(run.log) -> run.log is gone
Agent stopped: refused by protect_notes: it wants to delete all files
Replied: no_immediate_repeats > parse
Acted:   protect_notes > no_immediate_repeats > dispatch_tools
""",
    "networks": """\
What has changed:
+ node approve
~ edge was parse --Acted--> dispatch_tools, now parse --Acted--> approve
+ edge approve --Acted--> dispatch_tools
+ edge approve --AgentFinish--> END
+ edge approve --LimitReached--> stopped_response
~ bound transitions: was 4*iterations + 2 = 62 (exact), now 5*iterations + 2 = 77 (exact)
Each call of tools is approved: True
Each run passes parse: False
One that does not:
  plan --LimitReached--> stopped_response
  stopped_response --StoppedResponse--> END
What its nodes ask for:
  plan: CallModel CallAgent
  dispatch_tools: CallTool
  approve: AskHuman
A loop: plan parse
A loop: plan parse approve dispatch_tools check_return_direct
As GraphML, for other programs:
    <edge source="approve" target="dispatch_tools" id="Acted">
    <edge source="approve" target="END" id="AgentFinish">
    <edge source="approve" target="stopped_response" id="LimitReached">
""",
    "pictures": f"{STRICT_AGENT_EXECUTOR:text}\ndrawn: both.png, machine.svg, run.html, run.svg, timeline.txt\n",
    "reflection": """\
height(Zugspitze) -> 2962
reflect(2962) -> The unit is missing.
2962 metres
""",
    "pause": """\
AskHuman(question="Send 'we r closed 2morrow'? Write it as it is to be.")
sent: We are closed tomorrow. / Everybody knows.
""",
    "readable_stop": """\
No answer. Stopped after 3 steps: the limit of 3 iterations was reached (3 spent).
Found so far:
  1. 3 documents mention dragons, none answers the question
  2. 3 documents mention dragons, none answers the question
  3. 3 documents mention dragons, none answers the question
""",
    "memory": """\
Ada: I am Ada. -> Nice to meet you, Ada.
Bo: Who am I? -> I do not know.
Ada: Who am I? -> You are Ada.
Ada: How do you know? -> Because you told me.
The last request to the model:
  system: You are a helpful assistant. Use the tools where they help; answer in a sentence when you know.
  user: I am Ada.
  assistant: Nice to meet you, Ada.
  user: Who am I?
  assistant: You are Ada.
  user: How do you know?
""",
    "careful_model": """\
How many people live in Porto?
  plan: Retried
  plan: Retried
  plan: FellBack
248769 people. 2 calls, 0.0026 spent.
How many people live in Porto?
  plan: Cached
  plan: Cached
248769 people. 2 calls, 0.0000 spent.
Which city is the largest?
Stopped after 4 steps: the limit of 0.01 on the cost was reached (0.0132 spent). 4 calls, 0.0132 spent.
""",
    "delegation": """\
research(elm trees) -> The archive has nothing about elms.
Nobody knows.
PROVED
  transitions: 4*delegate.iterations*iterations + 8*iterations + 2 = 66 (exact)
  model calls: delegate.iterations*iterations + iterations = 12 (exact)
  tool calls: delegate.iterations*iterations + iterations = 12 (exact)
  seconds: no bound
  3 exits: AgentFinish, StoppedResponse, ParseError raised by parse or delegate.parse
  assuming: 6 things (see verdict.assumptions, or graphexec check)
""",
    "extensions": """\
PROVED
  transitions: 4*extensions*iterations + 2*extensions + 4*iterations + 3 = 43 (exact)
  model calls: extensions*iterations + iterations = 9 (exact)
  tool calls: extensions*iterations + iterations = 9 (exact)
  seconds: no bound
  3 exits: AgentFinish, StoppedResponse, ParseError raised by parse
  assuming: 6 things (see verdict.assumptions, or graphexec check)
After 3 steps the limit of 3 iterations was reached (3 spent). Go on? yes
After 6 steps the limit of 3 iterations was reached (3 spent). Go on? yes
Agent stopped due to extension limit. 9
""",
}


def run(example: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-X", "utf8", str(EXAMPLES / f"{example}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.medium
@pytest.mark.parametrize("example", mark_except(PRINTED, "plan_and_execute"))
def test_it_prints_what_it_is_known_to_print(example: str) -> None:
    assert run(example) == PRINTED[example]


@pytest.mark.local_model
def test_the_structured_example_multiplies_with_the_local_model() -> None:
    printed = run("structured_local", "What is 37 * 48?")
    assert "calculator" in printed
    assert printed.rstrip().splitlines()[-1].count("1776") == 1


def test_own_node_imports_six_names_at_most() -> None:
    tree = ast.parse((EXAMPLES / "own_node.py").read_text(encoding="utf-8"))
    imported = [
        one.name for line in ast.walk(tree) if isinstance(line, ast.Import | ast.ImportFrom) for one in line.names
    ]
    assert {"node", "create_agent"} < {*imported}
    assert len(imported) <= 6


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTED, "structured_local"}
