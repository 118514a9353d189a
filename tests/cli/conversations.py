"""A local server with a minimal Chat Completions API and scripted replies."""

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Silence:
    """A reply that never comes."""


@dataclass(frozen=True)
class Response:
    """A response as it is sent: its body is text or JSON."""

    status: int
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


# An error that may be retried immediately.
REFUSAL = Response(503, "", {"retry-after": "0"})
Reply = str | dict[str, Any] | Silence | Response


def tool_call_text(tool: str, **arguments: Any) -> str:
    """Return the structured agent's format of a tool call."""
    return json.dumps({"action": tool, "action_input": arguments})


def answer_text(answer: str) -> str:
    """Return the structured agent's format of an answer."""
    return json.dumps({"action": "final_answer", "answer": answer})


def native_tool_call(tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def completion_of(reply: str | dict[str, Any], model: str) -> dict[str, Any]:
    """Return a reply, or a whole message, as a chat completion."""
    message = reply if isinstance(reply, dict) else {"role": "assistant", "content": reply}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


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
                self.do_GET()
                return
            if isinstance(reply, str | dict):
                reply = Response(200, completion_of(reply, body["model"]))
            content = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
            self.send_response(reply.status)
            length = {"content-length": str(len(content.encode()))}
            for name, value in {"content-type": "application/json", **length, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content.encode())

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
