"""What a server sends during and after a call, as progress and as an observation."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

import mcp_types as types

from graphexec.errors import InputError
from graphexec.messages import Image


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a call: what its server says of it. `progress` grows up to `total`, if the server knows that."""

    tool: str
    progress: float
    total: float | None = None
    message: str | None = None

    def __str__(self) -> str:
        end = "" if self.total is None else f" of {self.total:g}"
        return f"{self.tool}: {self.progress:g}{end} {self.message or ''}".rstrip()


# Any: a string, JSON data, or a list of them with images.
def read_result(result: types.CallToolResult) -> Any:
    """Return the observation of a call.

    Structured content stands for all texts beside it, which by the protocol say the same. Images are `Image`s; of what
    models cannot read there is a label.
    """
    parts: list[Any] = [_read_part(one) for one in result.content]
    # Any: JSON data.
    data: Any = result.structured_content
    if data is not None:
        # So the SDK for Python wraps what is no object.
        match data:
            case {"result": inner, **others} if not others:
                data = inner
            case _:
                pass
        parts = [data, *(part for part, one in zip(parts, result.content, strict=True) if one.type != "text")]
    elif all(isinstance(one, str) for one in parts):
        return "\n".join(parts)
    return parts[0] if len(parts) == 1 else parts


def _read_part(part: types.ContentBlock) -> str | Image:
    match part:
        case types.TextContent():
            return part.text
        case types.ImageContent() | types.AudioContent():
            return _read_data(part.type, part.data, part.mime_type)
        case types.ResourceLink():
            return f"[resource {part.uri}: {part.title or part.name}]"
        case types.EmbeddedResource():
            inner = part.resource
            if isinstance(inner, types.TextResourceContents):
                return inner.text
            return _read_data(f"resource {inner.uri}", inner.blob, inner.mime_type or "bytes")


def _read_data(kind: str, data: str, media_type: str) -> str | Image:
    """Return an image, or a label of what is none, although its server may have called it one."""
    if media_type.startswith("image/"):
        with suppress(InputError):
            return Image(f"data:{media_type};base64,{data}")
    return f"[{kind}: {media_type}, {len(data) * 3 // 4:,} bytes]"
