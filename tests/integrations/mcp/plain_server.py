"""A small server over stdio in plain Python, which starts fast: `python plain_server.py NOTES`.

Its tools write a line to the file NOTES when they begin: `add` sums, `die` ends the process, `large` answers with a
million characters, `big` with so many millions, in a message that does not end, and `odd` with half a character.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = [{"name": name, "description": name, "inputSchema": SCHEMA} for name in ("add", "die", "large", "big", "odd")]


# Any: JSON data.
def answer(method: str, params: dict[str, Any], notes: Path) -> dict[str, Any] | None:
    """Return the result of a request; `None` for an unknown one."""
    match method:
        case "initialize":
            server = {"name": "plain", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            number, name = params["arguments"]["number"], params["name"]
            with notes.open("a", encoding="utf-8") as file:
                file.write(f"{name} {number}\n")
            if name == "die":
                print("the end is near", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "big":
                sys.stdout.write('{"jsonrpc": "2.0", "id": 0, "result": "')
                for _ in range(number):
                    sys.stdout.write("x" * 1_000_000)
            text = {"large": "x" * 1_000_000, "odd": "\ud800"}.get(name, str(number + 1))
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return None


def main() -> None:
    """Answer until the input ends."""
    print("not a message of MCP", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params", {}), Path(sys.argv[1]))
        reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)


if __name__ == "__main__":
    main()
