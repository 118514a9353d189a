"""The documentation site builds without a warning, its pages are up to date, and the package's metadata lead to it."""

import dataclasses
import fcntl
import importlib.metadata
import importlib.util
import inspect
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pytest

import graphexec
from graphexec import AgentExecutor, Answered, Asked, Done, Entered, Failed, Limits, Moved, Reported, agent_limits
from graphexec.memory import MemoryNotSaved
from graphexec.messages import ReplyDelta
from graphexec.models import Cached, CacheFailed, FellBack, OptionRefused, Retried, Routed, Waited
from graphexec.runtime import ObserverFailed
from graphexec.tools import ToolRetried
from graphexec.verify import CODES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs" / "site"


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DOCS / name))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("the extra docs is not installed")
    command = [sys.executable, str(DOCS / "website.py"), "build"]
    # There is one folder of the site, which two processes of a session must not build or read at once.
    with (tmp_path_factory.getbasetemp().parent / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        yield SITE


def test_navigation_names_every_page() -> None:
    named = re.findall(r"(?m)^ +- (?:.+: )?(\S+\.md)$", (DOCS / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(named) == sorted([*pages, "changelog.md"])


@pytest.mark.slow
def test_generated_pages_and_package_diagram_are_up_to_date() -> None:
    generated: dict[Path, str] = script("generate_reference.py")["pages"]()
    if not importlib.metadata.version("typer").startswith("0.29."):
        # Other versions of typer format the help in other ways.
        del generated[DOCS / "reference" / "command-line.md"]
    committed = {path: path.read_text(encoding="utf-8") for path in generated if path.exists()}
    assert committed == generated, "run: python docs/generate_reference.py"
    assert {path for path in generated if path.parent.name == "api"} == set((DOCS / "reference" / "api").iterdir())
    drawn = script("package_diagram.py")
    assert drawn["PICTURE"].read_text(encoding="utf-8") == drawn["picture"](), "run: python docs/package_diagram.py"


def test_every_finding_has_an_example() -> None:
    page = (DOCS / "reference" / "findings.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"(?ms)^### (GX\d+: [^\n{]+?) \{[^\n]*\n(.*?)(?=^##|\Z)", page))
    assert sorted(sections) == [f"{code}: {title}" for code, title in CODES.items()]
    # The output of each block is compared in test_documented_code.py.
    assert [title for title, text in sections.items() if not re.search(rf"(?m)^ *(#> )?{title[:5]}(:| at)", text)] == []


def test_links_out_of_docs_become_links_of_the_site() -> None:
    website = script("website.py")
    copied: dict[PurePosixPath, bytes] = {}
    page = DOCS / "how-to" / "pictures.md"
    text = "[a](../../examples/react.py) [b](../tutorial/index.md#x) [c](../../CHANGELOG.md) [d](nothing.md) "
    rewritten = website["rewrite_links"](text + "![e](../../diagrams/run.svg)", page, copied)
    links = re.findall(r"\]\(([^)]+)\)", rewritten)
    address = website["repository"]()
    assert links[0] == f"{address}/blob/main/examples/react.py"
    assert links[1:] == ["../tutorial/index.md#x", "../changelog.md", "nothing.md", "../files/diagrams/run.svg"]
    assert copied == {PurePosixPath("files/diagrams/run.svg"): (ROOT / "diagrams" / "run.svg").read_bytes()}


@pytest.mark.slow
def test_site_documents_every_public_name(site: Path) -> None:
    reference = script("generate_reference.py")
    missing = [
        f"{owner}.{name}"
        for name, owner in reference["documented_at"]().items()
        if f'id="{reference["identifier"](owner, name)}"'
        not in (site / "reference" / "api" / f"{owner}.html").read_text(encoding="utf-8")
    ]
    assert missing == []


@pytest.mark.slow
def test_site_loads_nothing_from_a_network(site: Path) -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    loaded = re.compile(
        r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]*)"|<link\b(?![^>]*canonical)[^>]*href="([^"]*)"'
    )
    for path, text in pages.items():
        links: list[tuple[str, str]] = loaded.findall(text)
        remote = [link for pair in links for link in pair if urlsplit(link).netloc]
        assert remote == [], path
        # The theme fetches the program that draws such a block.
        assert 'class="mermaid"' not in text, path
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')]+)", styles)


@pytest.mark.slow
def test_site_lists_its_pages_for_language_models(site: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 40
    assert [link for link in links if not (site / link).exists()] == []


def columns(page: str) -> list[list[str]]:
    """Return the cells of each row of the tables on a page of the reference."""
    lines = (DOCS / "reference" / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_events_page_has_every_event_and_field() -> None:
    rows = {row[0].split("`")[1]: re.findall(r"`(\w+)`", row[1]) for row in columns("events.md") if "`" in row[0]}
    for event in (Entered, Asked, Reported, Answered, Moved, Done, Failed):
        assert rows.pop(event.__name__) == [one.name for one in dataclasses.fields(event) if one.name != "call"]
    reported = {ReplyDelta, Retried, OptionRefused, FellBack, Routed, Waited, Cached, CacheFailed, ToolRetried}
    reported |= {MemoryNotSaved, ObserverFailed}
    assert rows.keys() == {one.__name__ for one in reported}


def test_limits_page_has_every_limit_and_default() -> None:
    def defaults(function: Any) -> dict[str, str]:
        parameters = inspect.signature(function).parameters.values()
        values = {one.name: one.default for one in parameters if one.kind is not one.POSITIONAL_ONLY}
        return {name: f"{value:,}" if isinstance(value, int) else f"`{value}`" for name, value in values.items()}

    rows = [[cell.strip("`") if index < 2 else cell for index, cell in enumerate(row)] for row in columns("limits.md")]
    every = {row[0]: row[1] for row in rows if len(row) == 4 and not row[1].startswith("max_")}
    agents = {row[0]: (row[1], row[2]) for row in rows if row[1].startswith("max_")}
    expected = {name: value.strip("`") for name, value in defaults(Limits).items() if name != "self"}
    assert {name: default for name, default in every.items() if name in expected} == expected
    options = defaults(AgentExecutor)
    for name, default in defaults(agent_limits).items():
        if name != "meters":
            option, shown = agents.pop(name)
            assert (shown, shown) == (default, options[option])
    assert agents == {}


# ---- metadata


README = (ROOT / "README.md").read_text(encoding="utf-8")

# When the project has a public address, change it in [project.urls] and, by search and replace, in README.md; and here.
PLACEHOLDER = "https://example.org/graphexec"


def test_every_project_url_begins_with_the_address() -> None:
    urls: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Repository"] == PLACEHOLDER
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith(PLACEHOLDER) for url in urls.values())


def test_version_is_that_of_the_distribution() -> None:
    assert graphexec.__version__ == importlib.metadata.version("graphexec-agents")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {graphexec.__version__}" in changelog


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 170


def test_readme_links_name_files_by_their_full_address() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    assert relative == []
    ours = [link for link in links if link.startswith(PLACEHOLDER)]
    assert ours
    named = [re.fullmatch(rf"{re.escape(PLACEHOLDER)}/(?:blob|raw|tree)/main/([^#]+)(?:#.*)?", link) for link in ours]
    assert None not in named
    assert [match[1] for match in named if match and not (ROOT / match[1]).exists()] == []
