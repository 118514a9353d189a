"""Print the lines of the package by room and of the tests against their caps; exit with status 1 above one.

A cap is raised only in a commit that says what users get for it.
"""

import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).parent.parent
CAPS = Path(__file__).with_name("caps.toml")


def count_lines(folder: Path, pattern: str = "**/*.py") -> int:
    """Return the lines of the Python files of a folder, but for those that packages of npm bring."""
    files = [path for path in folder.glob(pattern) if "node_modules" not in path.parts]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def main() -> int:
    """Compare all lines with the caps."""
    package = TOP / "graphexec"
    rooms = sorted(path.parent.name for path in package.glob("*/__init__.py"))
    lines = {f"graphexec/{room}": count_lines(package / room) for room in rooms}
    lines |= {"graphexec/*.py": count_lines(package, "*.py"), "tests": count_lines(TOP / "tests")}
    lines["graphexec"] = count_lines(package)
    caps = tomllib.loads(CAPS.read_text(encoding="utf-8"))
    for name, number in lines.items():
        cap = caps.pop(name, 0)
        print(f"{name:22} {number:7,} of {cap:7,}{'' if number <= cap else '  ABOVE ITS CAP'}")
        lines[name] -= cap
    for name in caps:
        print(f"{name} has a cap and no lines; take it out of {CAPS.name}")
    return int(bool(caps) or max(lines.values()) > 0)


if __name__ == "__main__":
    sys.exit(main())
