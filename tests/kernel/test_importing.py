"""`import graphexec` is light: heavy modules are imported on first use."""

import json
import subprocess
import sys
import textwrap

import pytest

# Looks up every public name, but the one that loads the prover.
ALL_NAMES = "import graphexec; [getattr(graphexec, name) for name in {*graphexec.__all__} - {'UnprovedError'}]"
# Modules of Python 3.12, which has the most; the public names load no dependency.
MOST_OTHERS = 59
# Modules of the package.
MOST_OWN = 109


def imported_modules(*lines: str) -> set[str]:
    program = textwrap.dedent("""
        import sys
        before = set(sys.modules)
        {}
        print(__import__("json").dumps(sorted(set(sys.modules) - before)))
    """).format("\n".join(lines))
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.medium
def test_names_load_what_they_need() -> None:
    # A name loads its package alone.
    own = {name for name in imported_modules("import graphexec") if name.startswith("graphexec.")}
    assert {name for name in own if not name.startswith("graphexec._mistakes")} == {"graphexec.errors"}
    modules = imported_modules("from graphexec import Graph, Limits, node")
    packages = {name.split(".")[1] for name in modules if name.startswith("graphexec.")}
    assert packages == {"_mistakes", "errors", "kernel"}
    modules = imported_modules("from graphexec import graph, splice")
    packages = {name.split(".")[1] for name in modules if name.startswith("graphexec.")}
    assert packages == {"_mistakes", "errors", "kernel", "machine"}
    # The models load no client.
    modules = imported_modules("from graphexec.models import ScriptedModel")
    assert not any(name.startswith(("graphexec.models.http", "graphexec.models.providers")) for name in modules)
    assert modules & {"asyncio", "pydantic"} == set()
    modules = imported_modules("from graphexec.models import *")
    assert "graphexec.models.http.remote" in modules
    heavy = {"httpx", "httpx_sse", "xllamacpp", "networkx", "typer", "rich", "sqlite3", "filelock", "platformdirs"}
    assert modules & heavy == set()


@pytest.mark.medium
def test_all_names_load_few_modules() -> None:
    modules = imported_modules(ALL_NAMES)
    heavy = {"asyncio", "concurrent.futures", "logging", "httpx", "networkx", "typer", "rich", "xllamacpp"}
    heavy |= {"pydantic", "pydantic_core", "typing_extensions"}
    assert modules & heavy == set()
    own = {name for name in modules if name.partition(".")[0] == "graphexec"}
    others = modules - own
    assert not any(name.startswith("graphexec.integrations") for name in own)
    assert len(own) <= MOST_OWN, f"{len(own)} modules: {sorted(own)}"
    assert len(others) <= MOST_OTHERS, f"{len(others)} modules: {sorted(others)}"
    # These modules of Python do.
    modules = imported_modules("import dataclasses, json, re, string", "re.compile = None", ALL_NAMES)
    assert "graphexec.executor.executor" in modules


@pytest.mark.medium
def test_first_use_imports_what_it_needs() -> None:
    assert not any(name.startswith("graphexec.draw") for name in imported_modules(ALL_NAMES))
    assert "graphexec.draw" in imported_modules("import graphexec", "f'{graphexec.executor.AGENT_EXECUTOR:mermaid}'")
    modules = imported_modules(
        "import graphexec",
        "from graphexec.models import ScriptedModel",
        "agent = graphexec.create_react_agent(ScriptedModel([]), [])",
        "executor = graphexec.AgentExecutor(agent=agent, tools=[])",
        "assert executor.verify().proved",
        "assert graphexec.executor.AGENT_EXECUTOR.verify(graphexec.Limits(iterations=3)).proved",
    )
    assert "graphexec.verify.proof.prove" in modules
    assert "networkx" not in modules
