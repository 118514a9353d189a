"""Search an error, its frames and the log for a secret."""

import base64
import functools
import io
import logging
import pickle
import traceback
import types
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Objects within objects that are searched: far more than those of a call.
_DEEPEST = 24


def forms_of(secret: str) -> tuple[str, ...]:
    """Return a secret as it may be written: plain, in base64, and in a URL."""
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return (secret, encoded[: len(secret) * 8 // 6], quote(secret, safe=""))


class Search:
    """A search for secrets. `hits` are the places where one was found."""

    def __init__(self, *secrets: str) -> None:
        self.forms = tuple(form for secret in secrets for form in forms_of(secret))
        self.hits: list[str] = []
        # The objects are kept: a new one could have the identity of an old one.
        self._seen: dict[int, object] = {}

    def in_text(self, text: str | bytes, place: str) -> None:
        """Search a text."""
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        self.hits += [f"{place}: {shown[:80]!r}" for form in self.forms if form in shown]

    def in_error(self, error: BaseException, place: str = "error") -> None:
        """Search an error with its causes: texts, attributes, pickles, and the variables of all frames of graphexec."""
        self.in_text("".join(traceback.format_exception(error)), f"{place}: format_exception")
        captured = traceback.TracebackException.from_exception(error, capture_locals=True)
        # The locals of the tests have the secret.
        for part in _chain(captured):
            for frame in part.stack:
                if not _is_test(frame.filename):
                    self.in_text(str(frame.locals), f"{place}: locals of {frame.name}")
        self.in_text(pickle.dumps(error), f"{place}: pickle")
        self._walk(error, place, 0)

    def in_object(self, value: object, place: str) -> None:
        """Search an object, and everything that it holds."""
        self.in_text(repr(value), f"{place}: repr")
        self._walk(value, place, 0)

    def in_files(self, folder: Path) -> None:
        """Search all files of a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.in_text(path.read_bytes(), str(path))

    def _walk(self, value: Any, place: str, depth: int) -> None:
        if isinstance(value, str | bytes):
            self.in_text(value, place)
            return
        if depth > _DEEPEST or value is None or id(value) in self._seen or isinstance(value, int | float | type):
            return
        home = value.__module__ if isinstance(value, types.FunctionType) else type(value).__module__
        if isinstance(value, types.ModuleType) or home.partition(".")[0] == "tests":
            return
        self._seen[id(value)] = value
        for name, part in _parts(value):
            self._walk(part, f"{place}.{name}", depth + 1)


def _chain(captured: traceback.TracebackException) -> Iterable[traceback.TracebackException]:
    yield captured
    for further in (captured.__cause__, captured.__context__):
        if further is not None:
            yield from _chain(further)


def _is_test(filename: str) -> bool:
    return "/tests/" in filename or "_pytest" in filename


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Yield what an object holds: items, attributes, slots, closures, arguments, and the variables of frames."""
    # Not isinstance, which would make the types of the parts unknown.
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if issubclass(kind, types.TracebackType):
        yield "next", value.tb_next
        if not _is_test(value.tb_frame.f_code.co_filename):
            yield from (
                (f"{value.tb_frame.f_code.co_name}.{name}", one) for name, one in value.tb_frame.f_locals.items()
            )
        return
    if issubclass(kind, BaseException):
        yield from (("cause", value.__cause__), ("context", value.__context__), ("tb", value.__traceback__))
        yield from enumerate_parts(value.args)
    if issubclass(kind, Mapping):
        for key, one in list(value.items()):
            yield "key", key
            yield str(key), one
    elif issubclass(kind, list | tuple | set | frozenset):
        yield from enumerate_parts(value)
    if issubclass(kind, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    if issubclass(kind, types.MethodType):
        yield "self", value.__self__
    if issubclass(kind, types.FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield "cell", cell.cell_contents
            except ValueError:
                continue
    if issubclass(kind, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None) or getattr(value, "ag_frame", None)
        if frame is not None:
            yield from frame.f_locals.items()
    yield from getattr(value, "__dict__", {}).items()
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)


def enumerate_parts(values: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Yield items with their positions as names."""
    return ((str(position), one) for position, one in enumerate(values))


@contextmanager
def record_log() -> Generator[io.StringIO, None, None]:
    """Record what all loggers write, at the level DEBUG."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield written
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
