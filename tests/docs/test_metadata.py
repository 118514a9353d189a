"""The package's metadata: the project's address, its version, and a description whose links work on an index page."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import graphexec

ROOT = Path(__file__).parents[2]
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
