"""A process of an application on DBOS: `FOLDER EXECUTOR` carries runs on, `FOLDER EXECUTOR RUNS` places so many."""

import json
import sys
from importlib import import_module
from pathlib import Path

from dbos import DBOS, DBOSConfig

from graphexec.integrations.dbos import workflow_for
from graphexec.runs import SQLiteRuns
from tests.integrations.engines.agents import make_executor


def configuration(folder: Path, executor_id: str) -> DBOSConfig:
    """Return a configuration of DBOS with its tables in this folder."""
    return {
        "name": "graphexec",
        "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
        # The SQLite of the operating system may be older than 3.42, which DBOS needs from Python 3.12 on.
        "db_engine_kwargs": {"module": import_module("pysqlite3")},
        "executor_id": executor_id,
        "log_level": "CRITICAL",
    }


def main(folder: Path, executor_id: str, runs: int) -> None:
    """Work until the process is killed, or until the results of the runs are printed."""
    DBOS(config=configuration(folder, executor_id))
    placed = workflow_for(make_executor(folder), SQLiteRuns(folder / "runs.db", lease=2.0), queue="agents")
    if runs:
        DBOS.listen_queues([])
    DBOS.launch()
    DBOS.register_queue("agents", worker_concurrency=10, polling_interval_sec=0.1)
    print("up", flush=True)
    if not runs:
        sys.stdin.read()
    handles = [placed.place(f"r{number}", f"r{number}") for number in range(runs)]
    print(json.dumps([handle.get_result() for handle in handles]), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
