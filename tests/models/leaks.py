"""Search an error, an object, files and the log for a secret."""

import base64
import io
import logging
import pickle
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from graphexec.errors import ModelError


def forms_of(secret: str) -> tuple[str, ...]:
    """Return a secret as it may be written: plain, in base64, and in a URL."""
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return (secret, encoded[: len(secret) * 8 // 6], quote(secret, safe=""))


class Search:
    """A search for secrets. `hits` are the places where one was found."""

    def __init__(self, *secrets: str) -> None:
        self.forms = tuple(form for secret in secrets for form in forms_of(secret))
        self.hits: list[str] = []

    def in_text(self, text: str | bytes, place: str) -> None:
        """Search a text."""
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        self.hits += [f"{place}: {shown[:80]!r}" for form in self.forms if form in shown]

    def in_error(self, error: BaseException, place: str = "error") -> None:
        """Search an error with its causes: texts, attributes, pickles, and of a failed call the frames' variables."""
        failed = isinstance(error, ModelError)
        captured: traceback.TracebackException | None
        captured = traceback.TracebackException.from_exception(error, capture_locals=failed)
        while captured is not None:
            # The locals of the tests have the secret.
            captured.stack[:] = [frame for frame in captured.stack if not _is_test(frame.filename)]
            self.in_text("".join(captured.format(chain=False)), f"{place}: traceback")
            captured = captured.__cause__ if captured.__suppress_context__ else captured.__context__
        one: BaseException | None = error
        while one is not None:
            self.in_text(f"{one!r} {vars(one)} {getattr(one, '__notes__', '')}", f"{place}: attributes")
            one = one.__cause__ if one.__suppress_context__ else one.__context__
        self.in_text(pickle.dumps(error), f"{place}: pickle")

    def in_object(self, value: object, place: str) -> None:
        """Search what an object shows of itself."""
        self.in_text(f"{value!r} {value}", place)

    def in_files(self, folder: Path) -> None:
        """Search all files of a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.in_text(path.read_bytes(), str(path))


def _is_test(filename: str) -> bool:
    return "/tests/" in filename or "_pytest" in filename


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
