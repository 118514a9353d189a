"""What tests of MCP clients share: a person who answers forms, and the text of a result."""

from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext

# Seconds. Far longer than any operation here; a test that reaches it fails.
PATIENCE = 30.0

# The eras of the protocol: 2026-07-28, and the versions before it.
ERAS = ("auto", "legacy")


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


APPROVE, DECLINE = accept(decision="approve"), types.ElicitResult(action="decline")


class Person:
    """Answers forms one after the other; the last answer repeats."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self.answers, self.forms = [*answers], list[types.ElicitRequestFormParams]()

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.forms.append(params)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def text_of(result: types.CallToolResult | types.InputRequiredResult) -> str:
    assert isinstance(result, types.CallToolResult)
    return "".join(one.text for one in result.content if isinstance(one, types.TextContent))


async def call_mail(
    client: Client, state: str | None = None, *, word: str = "a", answer: types.ElicitResult | None = APPROVE
) -> tuple[str, str]:
    """Call the tool `mail` by hand; return the text of its result or error, or "asked" and the state of its form."""
    responses: dict[str, types.InputResponse] = {} if answer is None else {"0": answer}
    try:
        result = await client.session.call_tool(
            "mail", {"input": word}, input_responses=responses, request_state=state, allow_input_required=True
        )
    except MCPError as error:
        return str(error), ""
    if isinstance(result, types.InputRequiredResult):
        return "asked", result.request_state or ""
    return text_of(result), ""
