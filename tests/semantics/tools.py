"""The tools that the reference knows by name, as real ones; half of them are async."""

from graphexec import tool
from tests.executor.actors import AnyTool


@tool
def echo(number: int) -> int:
    """Say the number again."""
    return number


@tool
async def aecho(number: int) -> int:
    """Say the number again."""
    return number


@tool
def fail(number: int) -> int:
    """Never work."""
    raise ValueError("no")


@tool(return_direct=True)
def direct(number: int) -> int:
    """Answer with the number."""
    return number


@tool(return_direct=True)
async def direct_fail(number: int) -> int:
    """Never answer."""
    raise ValueError("no")


TOOLS: list[AnyTool] = [echo, aecho, fail, direct, direct_fail]
