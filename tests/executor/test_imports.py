"""Names and modules that users expect elsewhere, or spell wrongly: the error of the import says what to write."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec
from graphexec import agents, executor, kernel, memory, messages, models, tools, verify
from tests.parameters import cases

PACKAGES = (graphexec, agents, executor, kernel, memory, messages, models, tools, verify)
TOOL = "a tool is a function with annotations and a docstring: write @tool above def"
AGENT = "create_agent(model, tools) makes an agent and its executor"
MODELS = "write OpenAICompatible, Anthropic or LocalModel of graphexec.models"
MESSAGES = "write UserMessage, AssistantMessage, SystemMessage or ToolMessage of graphexec.messages"

MISSING_NAMES = [
    ("agents", "AgentExecutor", "write from graphexec import AgentExecutor"),
    ("agents", "create_agent", "write from graphexec import create_agent"),
    ("agents", "tool", "write from graphexec import tool"),
    ("agents", "initialize_agent", AGENT),
    ("agents", "load_tools", TOOL),
    ("tools", "BaseTool", TOOL),
    ("tools", "StructuredTool", TOOL),
    ("tools", "CallTool", "write from graphexec.effects import CallTool"),
    ("models", "ChatOpenAI", MODELS),
    ("models", "ChatAnthropic", MODELS),
    ("models", "OpenAICompatable", "did you mean OpenAICompatible?"),
    ("memory", "ConversationBufferMemory", "write BufferMemory of graphexec.memory"),
    ("memory", "UserMessage", "write from graphexec.messages import UserMessage"),
    ("messages", "HumanMessage", MESSAGES),
    ("executor", "Runner", AGENT),
    ("kernel", "Snapshots", "did you mean Snapshot?"),
    ("verify", "UnprovedErrors", "did you mean UnprovedError?"),
    ("", "create_agnt", "did you mean create_agent?"),
    ("", "BuferMemory", "did you mean BufferMemory of graphexec.memory?"),
    ("", "load_tools", TOOL),
    ("", "llms", MODELS),
    ("", "OpenAICompatible", "write from graphexec.models import OpenAICompatible"),
    ("", "BufferMemory", "write from graphexec.memory import BufferMemory"),
    ("", "UserMessage", "write from graphexec.messages import UserMessage"),
    ("", "AgentError", "write from graphexec.errors import AgentError"),
]


@cases(("package", "name", "remedy"), MISSING_NAMES)
def test_package_explains_missing_name(package: str, name: str, remedy: str) -> None:
    module = f"graphexec.{package}".rstrip(".")
    with pytest.raises(ImportError) as raised:
        exec(f"from {module} import {name}")
    with pytest.raises(AttributeError) as missing:
        getattr(sys.modules[module], name)
    assert str(raised.value) == str(missing.value) == f"{module} has no {name}; {remedy}"


MISSING_MODULES = [
    ("chat_models", MODELS),
    ("llms", MODELS),
    ("prompts", "a prompt is a string with {variables}"),
    ("callbacks", "write AgentExecutor(observers=[function]), with a function of an event"),
    ("schema", "messages are in graphexec.messages, and the steps of a run in graphexec.actions"),
    ("agents.agent_toolkits", TOOL),
    ("tolls", "did you mean graphexec.tools?"),
]


@cases(("module", "remedy"), MISSING_MODULES)
def test_import_explains_missing_module(module: str, remedy: str) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        exec(f"import graphexec.{module}")
    assert str(raised.value) == f"there is no module graphexec.{module}; {remedy}"
    assert raised.value.name == f"graphexec.{module}"


@cases("module", ["nothing_here", "graphexec.nothing", "graphexec.agents.nothing"])
def test_other_module_is_missing_as_usual(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^No module named '{module}'$"):
        importlib.import_module(module)


@cases("module", ["llms", "tolls", "nothing"])
def test_missing_module_has_no_spec(module: str) -> None:
    assert importlib.util.find_spec(f"graphexec.{module}") is None


@pytest.mark.medium
@cases("package", PACKAGES)
@given(name=st.from_regex(r"\A[a-zA-Z][a-zA-Z_]{0,8}\Z"))
def test_any_missing_name_can_be_looked_up(package: ModuleType, name: str) -> None:
    assert getattr(package, name, None) is vars(package).get(name)


@cases("package", PACKAGES)
def test_submodules_are_imported_as_before(package: ModuleType) -> None:
    names = [one.partition(".")[2] for one in sys.modules if one.rpartition(".")[0] == package.__name__]
    assert names
    for name in names:
        exec(f"from {package.__name__} import {name.rpartition('.')[2]}")
