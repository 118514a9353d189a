"""Stored runs: on one file, `SQLiteRuns("runs.db")`, or on a server, `PostgresRuns(dsn)`.

`executor.run(inputs, runs=store, run_id="trip")` begins a run, continues it after its process has ended, or returns its
result. A run with a question that nobody answers returns a `Waiting`, and goes on after `store.reply`.
"""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.runs.errors import (
        CallInDoubtError,
        RunBusyError,
        RunChangedError,
        RunLostError,
        RunStoreError,
        StoreError,
    )
    from graphexec.runs.pages import recording_of_stored
    from graphexec.runs.postgres import PostgresRuns
    from graphexec.runs.questions import Question, Waiting
    from graphexec.runs.sqlite import SQLiteRuns
    from graphexec.runs.store import Runs, RunStatus, StoredRun

__all__ = [
    "CallInDoubtError",
    "PostgresRuns",
    "Question",
    "RunBusyError",
    "RunChangedError",
    "RunLostError",
    "RunStatus",
    "RunStoreError",
    "Runs",
    "SQLiteRuns",
    "StoreError",
    "StoredRun",
    "Waiting",
    "recording_of_stored",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(
        __name__,
        {
            "graphexec.runs.errors": "CallInDoubtError RunBusyError RunChangedError RunLostError RunStoreError "
            "StoreError",
            "graphexec.runs.pages": "recording_of_stored",
            "graphexec.runs.postgres": "PostgresRuns",
            "graphexec.runs.questions": "Question Waiting",
            "graphexec.runs.sqlite": "SQLiteRuns",
            "graphexec.runs.store": "RunStatus Runs StoredRun",
        },
    )
