"""The program of a local model's process: llama.cpp's server, until its standard input ends. Run as a script.

In a process of its own, because xllamacpp 2026.10 holds the interpreter's lock while it loads and does not stop
cleanly.
Reads one line of JSON, the settings, from standard input, and writes one to standard output: `{"url": ...}` or
`{"error": ...}`. It imports nothing of graphexec, so that it starts quickly.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

# llama.cpp's own levels: 1 is errors only. They go to standard error, which the parent keeps.
ERRORS_ONLY = 1
# MiB of earlier prompts that are kept, for agents that take turns: a few contexts of a small model.
PROMPT_CACHE = 512


# Any: settings come as JSON, and xllamacpp has no types.
def start(settings: dict[str, Any]) -> Any:
    """Return a running server. Raises `RuntimeError` where llama.cpp cannot load the file."""
    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = [settings["name"]]
    params.n_ctx = settings["context"]
    params.n_parallel = 1
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.verbosity = ERRORS_ONLY
    # Its default keeps up to 8 GB of earlier prompts.
    params.cache_ram_mib = PROMPT_CACHE
    params.ui = False
    if settings["chat_template"] is not None:
        params.chat_template = settings["chat_template"]
    return llama.Server(params)


def main() -> None:
    """Serve until the parent closes our standard input, or is no more."""
    # Ctrl-C is the parent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing that llama.cpp prints must come between the parent and our answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        server = start(json.loads(sys.stdin.readline()))
    # Whatever it is, the parent says it better.
    except Exception as error:  # noqa: BLE001
        # Then an ordinary end: llama.cpp writes out what it complained about.
        print(json.dumps({"error": str(error)}), file=answer, flush=True)
        return
    print(json.dumps({"url": server.listening_address}), file=answer, flush=True)
    sys.stdin.read()
    # Without the server's own end, which may never come.
    os._exit(0)


if __name__ == "__main__":
    main()
