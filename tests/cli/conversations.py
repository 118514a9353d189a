"""A local server with a minimal Chat Completions API and scripted replies."""

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
    """A reply that never comes."""


@dataclass(frozen=True)
class Refusal:
    """An error 503 that may be retried immediately."""


Reply = str | dict[str, Any] | Silence | Refusal


def tool_call_text(tool: str, **arguments: Any) -> str:
    """Return the structured agent's format of a tool call."""
    return json.dumps({"action": tool, "action_input": arguments})


def answer_text(answer: str) -> str:
    """Return the structured agent's format of an answer."""
    return json.dumps({"action": "final_answer", "answer": answer})


def native_tool_call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a message with a native tool call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@dataclass
class Conversation:
    """A running server: its address, its requests, and whether one of them stays pending."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    waiting: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(replies: Sequence[Reply]) -> Generator[Conversation]:
    """Serve `replies` in order, each once, on a free port."""
    left = list(replies)
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            conversation.asked.append(body)
            reply = left.pop(0) if left else answer_text("there is nothing more to say")
            if isinstance(reply, Silence):
                conversation.waiting.set()
                closing.wait()
                self.close_connection = True
                return
            if isinstance(reply, Refusal):
                self.send_response(503)
                self.send_header("retry-after", "0")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            message = reply if isinstance(reply, dict) else {"role": "assistant", "content": reply}
            reason = "tool_calls" if "tool_calls" in message else "stop"
            completion = {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            }
            content = json.dumps(completion).encode()
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
