"""Generated tests and snapshots name a class by the package that exports it, not by the module that defines it."""

from __future__ import annotations

import json.decoder
import string
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import graphexec
import graphexec.messages
from graphexec import messages
from graphexec.integrations.langchain.originals import dump_original, restore_original
from graphexec.kernel.serialization import public_module
from graphexec.kernel.stepping import PendingEffect
from graphexec.messages.images import ImageMarks
from tests.parameters import cases


@cases("package", graphexec, graphexec.messages)
def test_exported_class_is_named_by_its_package(package: ModuleType) -> None:
    classes = {one for one in (getattr(package, name) for name in package.__all__) if isinstance(one, type)}
    assert len(classes) > 10
    assert {public_module(one) for one in classes} == {package.__name__}


def test_class_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphexec.Limits.__module__ != "graphexec"
    limits = graphexec.Limits
    monkeypatch.delitem(vars(graphexec), "Limits")
    assert public_module(limits) == "graphexec"
    assert module_of_outer(Outer, ("Outer",), monkeypatch) == ["tests.kernel"] * 2
    assert module_of_outer(Outer, (), monkeypatch) == [__name__] * 2
    assert module_of_outer(int, ("Outer",), monkeypatch) == [__name__] * 2
    monkeypatch.setattr(Outer, "__module__", "tests.kernel.not_loaded")
    assert module_of_outer(None, ("Outer",), monkeypatch)[0] == "tests.kernel.not_loaded"


@cases(
    ("named", "module"),
    (json.decoder.JSONDecoder, "json"),
    (json.decoder.JSONDecodeError, "json"),
    (string.Template, "string"),
    (ImageMarks, "graphexec.messages.images"),
    (PendingEffect, "graphexec.kernel"),
    (int, "builtins"),
)
def test_other_name_keeps_its_module(named: Any, module: str) -> None:
    assert public_module(named) == module


@dataclass
class Outer:
    """A class of a user's package."""

    @dataclass
    class Inner:
        """A class within a class."""


def module_of_outer(exported: object, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the modules of `Outer` and `Outer.Inner` if their package has these names."""
    package = ModuleType("tests.kernel")
    vars(package).update({"__all__": names, "Outer": exported})
    monkeypatch.setitem(sys.modules, "tests.kernel", package)
    return [public_module(Outer), public_module(Outer.Inner)]


def test_stored_class_names_its_public_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dump_original(messages.AssistantMessage("hi"))["class"] == "graphexec.messages:AssistantMessage"
    assert module_of_outer(Outer, ("Outer",), monkeypatch)[0] == "tests.kernel"
    assert dump_original(Outer())["class"] == f"{__name__}:Outer"


@cases("module", "graphexec.messages", "graphexec.messages.conversation")
def test_stored_message_is_restored_by_each_name(module: str) -> None:
    stored = dump_original(messages.AssistantMessage("hi"))
    named = {**stored, "class": f"{module}:AssistantMessage"}
    restored = restore_original(named)
    assert (type(restored), restored.content) == (messages.AssistantMessage, "hi")
