"""A server on this machine that speaks just enough of Chat Completions, and says what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Silence:
    """A reply that does not come before the server is closed."""


@dataclass(frozen=True)
class Refusal:
    """A reply that is no reply: the server is overloaded, and may be asked again at once."""


Said = str | dict[str, Any] | Silence | Refusal


def calling(tool: str, **arguments: Any) -> str:
    """What the structured agent's model says to call a tool."""
    return json.dumps({"action": tool, "action_input": arguments})


def answering(answer: str) -> str:
    """What the structured agent's model says to answer."""
    return json.dumps({"action": "final_answer", "answer": answer})


def native(tool: str, **arguments: Any) -> dict[str, Any]:
    """A message with a native tool call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@dataclass
class Conversation:
    """A running server: its address, what it was asked, and whether somebody waits for a reply that does not come."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    waiting: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(replies: Sequence[Said]) -> Generator[Conversation]:
    """Serve `replies` in their order, each once, on a port of its own."""
    left = list(replies)
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            conversation.asked.append(body)
            said = left.pop(0) if left else answering("there is nothing more to say")
            if isinstance(said, Silence):
                conversation.waiting.set()
                closing.wait()
                self.close_connection = True
                return
            if isinstance(said, Refusal):
                self.send_response(503)
                self.send_header("retry-after", "0")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            message = said if isinstance(said, dict) else {"role": "assistant", "content": said}
            reason = "tool_calls" if "tool_calls" in message else "stop"
            reply = {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            }
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            # A package index that never answers.
            conversation.waiting.set()
            closing.wait()
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    conversation = Conversation(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield conversation
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
