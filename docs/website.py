"""Build the documentation site, or serve it: `python docs/website.py build` or `python docs/website.py serve`.

The generator needs the pages in a folder below its configuration, so both are copied to build/docs. In the copies, a
link that leaves docs/ becomes a link to a picture in the site, or to a file in the project's repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

DOCS = Path(__file__).resolve().parent
TOP = DOCS.parent
BUILD = TOP / "build" / "docs"

PICTURES = (".png", ".svg")
COPIED = (".css", ".md", ".txt", *PICTURES)
# A page that is kept elsewhere in the repository.
CHANGELOG = TOP / "CHANGELOG.md"

LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
NAV_ENTRY = re.compile(r" +- (?:(.+): )?(\S+\.md)")
SECONDS_BETWEEN_LOOKS = 0.5


def repository() -> str:
    """Return the project's address, which pyproject.toml names."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def place_in_site(path: Path) -> PurePosixPath | None:
    """Return where the site has a file of the repository, or None if it does not have it."""
    if path == CHANGELOG:
        return PurePosixPath("changelog.md")
    if path.is_relative_to(DOCS):
        return PurePosixPath(path.relative_to(DOCS).as_posix()) if path.suffix in COPIED else None
    return PurePosixPath("files", path.relative_to(TOP).as_posix()) if path.suffix in PICTURES else None


def rewrite_links(text: str, page: Path, copied: dict[PurePosixPath, bytes]) -> str:
    """Return the text of a page with links that hold in the site; add the pictures that it shows to `copied`."""
    here = place_in_site(page)
    assert here is not None, "a page is in the site"

    def rewrite(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if ":" in match[2] or not target.is_relative_to(TOP) or not target.exists():
            return match[0]
        there = place_in_site(target)
        if there is None:
            kind = "tree" if target.is_dir() else "blob"
            link = f"{repository()}/{kind}/main/{target.relative_to(TOP).as_posix()}"
        else:
            link = PurePosixPath(os.path.relpath(there, here.parent)).as_posix()
            if target.suffix in PICTURES:
                copied[there] = target.read_bytes()
        return f"{match[1]}{link}{match[3]}"

    return LINK.sub(rewrite, text)


def summary(text: str) -> str:
    """Return the first sentence of a page without links; nothing if the page does not begin with a paragraph."""
    paragraph = next((part for part in text.split("\n\n") if not part.startswith("#")), "")
    if not paragraph[:1].isalpha():
        return ""
    plain = re.sub(r"!?\[([^\]]+)\](\([^)]*\)|\[[^\]]*\])", r"\1", " ".join(paragraph.split()))
    return plain.partition(". ")[0].rstrip(".:")


def llms_txt(pages: Mapping[PurePosixPath, bytes]) -> str:
    """Return the list of pages for language models, in the format of llmstxt.org."""
    lines = ["# graphexec", "", f"> {summary(pages[PurePosixPath('index.md')].decode())}.", ""]
    for line in (DOCS / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines():
        if heading := re.fullmatch(r"  - ([^:]+):", line):
            lines += ["", f"## {heading[1]}", ""]
        elif entry := NAV_ENTRY.fullmatch(line):
            text = pages[PurePosixPath(entry[2])].decode()
            title = entry[1] or text.partition("\n")[0].removeprefix("# ")
            about = summary(text)
            lines.append(f"- [{title}]({entry[2].removesuffix('.md')}.html){about and f': {about}'}")
    return "\n".join([*lines, ""])


def site_files() -> dict[PurePosixPath, bytes]:
    """Return the content of each file that the generator reads, by its path in build/docs."""
    pages: dict[PurePosixPath, bytes] = {}
    for path in [CHANGELOG, *sorted(DOCS.rglob("*"))]:
        place = place_in_site(path)
        if place is None or not path.is_file():
            continue
        if path.suffix == ".md":
            pages[place] = rewrite_links(path.read_text(encoding="utf-8"), path, pages).encode()
        else:
            pages[place] = path.read_bytes()
    pages[PurePosixPath("llms.txt")] = llms_txt(pages).encode()
    configuration = (DOCS / "mkdocs.yml").read_bytes()
    return {PurePosixPath("mkdocs.yml"): configuration, **{"pages" / path: pages[path] for path in pages}}


def copy_files() -> None:
    """Make build/docs what `site_files` says; leave alone what has not changed, and what the generator wrote."""
    files = {BUILD / path: content for path, content in site_files().items()}
    for path, content in files.items():
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in (BUILD / "pages").rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()


def copy_changes(stopped: threading.Event) -> None:
    """Copy what is edited while the site is served."""
    while not stopped.wait(SECONDS_BETWEEN_LOOKS):
        copy_files()


def run_generator(*arguments: str) -> int:
    """Run Zensical on build/docs; return its exit code."""
    command = (sys.executable, "-m", "zensical", *arguments, "--config-file", str(BUILD / "mkdocs.yml"))
    return subprocess.run(command, check=False).returncode  # noqa: S603 - its arguments are ours


def main(command: str) -> int:
    """Build the site into build/docs/site, strictly, or serve it until it is interrupted."""
    copy_files()
    if command == "build":
        return run_generator("build", "--clean", "--strict")
    stopped = threading.Event()
    threading.Thread(target=copy_changes, args=(stopped,), daemon=True).start()
    try:
        return run_generator("serve")
    except KeyboardInterrupt:
        return 0
    finally:
        stopped.set()


if __name__ == "__main__":
    if sys.argv[1:] not in (["build"], ["serve"]):
        sys.exit("usage: python docs/website.py build|serve")
    sys.exit(main(sys.argv[1]))
