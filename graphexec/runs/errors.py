"""Why a stored run cannot go on."""

from __future__ import annotations

from collections.abc import Sequence

from graphexec.errors import GraphexecError


class RunStoreError(GraphexecError, RuntimeError):
    """A stored run cannot go on in this process. `run_id` is the run's."""

    def __init__(self, run_id: str, text: str) -> None:
        self.run_id = run_id
        super().__init__(f"the run {run_id} {text}")


class StoreError(GraphexecError, RuntimeError):
    """The database of a store cannot be used, such as while its server is down. Its runs can be continued later."""


class RunBusyError(RunStoreError):
    """Another process, or another call of this one, carries on the run at this moment."""


class RunLostError(RunStoreError):
    """The run was taken over by another process, or cancelled: this one stops before its next effect."""


class RunChangedError(RunStoreError):
    """The run was begun by another version of the machine; `changes` are the names of its parts that differ."""

    def __init__(self, run_id: str, text: str, changes: Sequence[str] = ()) -> None:
        self.changes = tuple(changes)
        super().__init__(run_id, text)


class CallInDoubtError(RunStoreError):
    """A call with `in_doubt="fail"` may have been carried out when its process ended."""
