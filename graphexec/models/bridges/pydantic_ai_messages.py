"""Messages of chat completions as those of Pydantic AI."""

from __future__ import annotations

from typing import Any

from graphexec.models.http.json_values import JSON


# Any: the module with the classes of the package, which is optional, and their instances; so in this module.
def convert(types: Any, sent: list[JSON]) -> list[Any]:
    """Return messages as replies, and as requests of several parts between them."""
    names, found = dict[str, str](), list[Any]()
    for message in sent:
        content = message["content"]
        match message["role"]:
            case "assistant":
                parts = [types.TextPart(content)] if content else []
                for one in message.get("tool_calls", ()):
                    names[one["id"]] = one["function"]["name"]
                    parts.append(types.ToolCallPart(names[one["id"]], one["function"]["arguments"], one["id"]))
                found.append(types.ModelResponse(parts))
                continue
            case "system":
                part = types.SystemPromptPart(content)
            case "tool":
                part = types.ToolReturnPart(names.get(message["tool_call_id"], ""), content, message["tool_call_id"])
            case _:
                shown = content if isinstance(content, str) else [_convert_part(types, one) for one in content]
                part = types.UserPromptPart(shown)
        if not found or found[-1].kind == "response":
            found.append(types.ModelRequest([]))
        found[-1].parts.append(part)
    return found


def _convert_part(types: Any, part: JSON) -> Any:
    if part["type"] == "text":
        return part["text"]
    url: str = part["image_url"]["url"]
    return types.BinaryContent.from_data_uri(url) if url.startswith("data:") else types.ImageUrl(url)
