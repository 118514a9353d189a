"""Options of create_agent and of tools, and calls of tools, that do not exist or have another type."""

from graphexec import Tool, create_agent, tool
from graphexec.models import create_model
from graphexec.tools import tool_from_schema


def double(number: int) -> int:
    return 2 * number


class Shop:
    @tool
    def price(self, item: str) -> str:
        """Tell the price."""
        return item


create_agent("local", [double], max_iteration=3)  # error: mypy call-overload call-overload, pyright reportCallIssue
create_agent("local", [double], max_iterations="3")  # error: mypy call-overload, pyright reportArgumentType
create_agent("local", [double], kind="tool-calling")  # error: mypy call-overload, pyright reportArgumentType
create_agent("local", [3])  # error: mypy list-item, pyright reportArgumentType
create_agent(3, [double])  # error: mypy call-overload, pyright reportArgumentType
create_model("openai:gpt-5-mini", temprature=0)  # error: mypy call-arg, pyright reportCallIssue
tool_from_schema("double", "Double it.", {}, double, timeuot=3)  # error: mypy call-arg, pyright reportCallIssue
Tool("double", double, "Double it.")("3")  # error: mypy arg-type, pyright reportArgumentType
Shop().price(3)  # error: mypy arg-type, pyright reportArgumentType
