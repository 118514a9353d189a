"""The program of a local model's process: it runs llama.cpp's server until its standard input ends. Run as a script.

It is a separate process, because xllamacpp 2026.10 holds the interpreter's lock while it loads, and does not stop
cleanly. It reads the settings as one line of JSON from standard input, and writes one line to standard output:
`{"url": ...}` or `{"error": ...}`. It does not import graphexec, so that it starts quickly.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

# A log level of llama.cpp. Its errors go to standard error, which the parent reads.
ERRORS_ONLY = 1
# MiB for earlier prompts, which agents that take turns reuse: enough for a few contexts of a small model.
PROMPT_CACHE = 512


# Any: settings come as JSON, and xllamacpp has no types.
def start(settings: dict[str, Any]) -> Any:
    """Return a running server. Raises `RuntimeError` if llama.cpp cannot load the file."""
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
    # The default is 8 GB.
    params.cache_ram_mib = PROMPT_CACHE
    params.ui = False
    if settings["chat_template"] is not None:
        params.chat_template = settings["chat_template"]
    return llama.Server(params)


def main() -> None:
    """Serve until the parent closes our standard input or ends."""
    # The parent handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Output of llama.cpp goes to standard error, so that the parent reads only our answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        server = start(json.loads(sys.stdin.readline()))
    # The parent turns the error into a WeightsError.
    except Exception as error:  # noqa: BLE001
        # The process exits normally, so that llama.cpp flushes its log.
        print(json.dumps({"error": str(error)}), file=answer, flush=True)
        return
    print(json.dumps({"url": server.listening_address}), file=answer, flush=True)
    sys.stdin.read()
    # Exit at once, because stopping the server may hang.
    os._exit(0)


if __name__ == "__main__":
    main()
