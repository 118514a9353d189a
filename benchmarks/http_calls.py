"""The cost of a call and of a streamed token over HTTP: `python benchmarks/http_calls.py`.

A server in another process answers each request at once, on a connection that is kept: with a short reply, or with a
stream of 500 tokens. Beside this package's client, bare httpx and the official client send the same conversation of ten
messages. Times are of this process's processor, the best of several rounds that take turns, in µs. Without the package
`openai` its client is not measured. With `--check` the exit status is 1 if a call or a token costs more than with it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from graphexec.messages import AssistantMessage, ChatRequest, UserMessage
from graphexec.models import OpenAICompatible

CALLS, TOKENS, ROUNDS = 200, 500, 7
TEXTS = [f"Message {number} of a conversation about nothing in particular." for number in range(10)]

_KIND = {"id": "1", "created": 1, "model": "m"}
REPLY = {
    **_KIND,
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Fine."}}],
    "usage": {"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92},
}


def events() -> Iterator[str]:
    """Yield the events of a streamed reply."""
    for number in range(TOKENS):
        delta = {"role": "assistant", "content": f"word{number} "}
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield json.dumps({**_KIND, "object": "chat.completion.chunk", "choices": [choice]})
    last: dict[str, object] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield json.dumps({**_KIND, "object": "chat.completion.chunk", "choices": [last]})
    yield "[DONE]"


def serve() -> None:
    """Print the port, and answer until the process is killed."""
    reply = json.dumps(REPLY).encode()
    stream = "".join(f"data: {event}\n\n" for event in events()).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                body = await reader.readexactly(int(length.split(b":")[1]))
                streams = json.loads(body).get("stream")
                kind, sent = (b"text/event-stream", stream) if streams else (b"application/json", reply)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(sent)))
                writer.write(sent)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def start_server() -> Generator[str]:
    """Start the server; the address is that of its API."""
    command = [sys.executable, __file__, "serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - it is this file
    try:
        assert process.stdout is not None, "it is a pipe"
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.kill()
        process.wait()


def rows_of_this(address: str) -> dict[str, Callable[[], object]]:
    """Return how this package calls, and how it streams."""
    model = OpenAICompatible("m", base_url=address)
    request = ChatRequest(
        tuple((AssistantMessage if number % 2 else UserMessage)(text) for number, text in enumerate(TEXTS))
    )
    return {"call": lambda: model.complete(request), "stream": lambda: [*model.stream(request)]}


def rows_of_httpx(address: str) -> dict[str, Callable[[], object]]:
    """Return how httpx calls and streams, with its bodies parsed as JSON and nothing else."""
    client, url = httpx.Client(timeout=60), f"{address}/chat/completions"
    messages = [{"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(TEXTS)]
    body = {"model": "m", "messages": messages}

    def stream() -> list[object]:
        with client.stream("POST", url, json={**body, "stream": True}) as response:
            lines = (line.removeprefix("data: ") for line in response.iter_lines() if line)
            return [json.loads(line) for line in lines if line != "[DONE]"]

    return {"call": lambda: client.post(url, json=body).json(), "stream": stream}


def rows_of_official(address: str) -> dict[str, Callable[[], object]]:
    """Return how the official client calls, and how it streams."""
    import openai

    client = openai.OpenAI(base_url=address, api_key="none")
    # Any: the client's types for messages are unions of many classes.
    messages: Any = [
        {"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(TEXTS)
    ]
    return {
        "call": lambda: client.chat.completions.create(model="m", messages=messages),
        "stream": lambda: [*client.chat.completions.create(model="m", messages=messages, stream=True)],
    }


def main() -> int:
    """Measure, print, and return the exit status."""
    if sys.argv[1:] == ["serve"]:
        serve()
    with start_server() as address:
        clients = {"graphexec": rows_of_this(address), "httpx": rows_of_httpx(address)}
        if importlib.util.find_spec("openai") is not None:
            clients["openai"] = rows_of_official(address)
        best: dict[tuple[str, str], float] = {}
        for _ in range(ROUNDS):
            for kind, again, parts in (("call", CALLS, 1), ("stream", CALLS // 40, TOKENS)):
                for name, row in clients.items():
                    began = time.process_time()
                    for _ in range(again):
                        row[kind]()
                    taken = (time.process_time() - began) / (again * parts) * 1e6
                    best[name, kind] = min(best.get((name, kind), taken), taken)
    print(f"{'µs':<12}{'a call':>10}{'a token':>10}")
    for name in clients:
        print(f"{name:<12}{best[name, 'call']:>10.0f}{best[name, 'stream']:>10.1f}")
    ratios = {
        (other, kind): best["graphexec", kind] / best[other, kind]
        for other in [*clients][1:]
        for kind in ("call", "stream")
    }
    print(", ".join(f"{kind}: {ratio:.2f} of {other}" for (other, kind), ratio in ratios.items()))
    costly = any(ratio > 1 for (other, _), ratio in ratios.items() if other == "openai")
    return int(costly and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
