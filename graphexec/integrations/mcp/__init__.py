"""For users of the Model Context Protocol: the tools of its servers, and an executor as a server.

Names are imported from here. The SDK, of the extra `mcp`, is imported when one of them is first used.
"""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.integrations.mcp.configuration import load_servers
    from graphexec.integrations.mcp.elicitation import AnswerMCP, elicit
    from graphexec.integrations.mcp.results import Progress
    from graphexec.integrations.mcp.servers import MCPServer
    from graphexec.integrations.mcp.serving import serve
    from graphexec.integrations.mcp.sessions import MCPServerError

__all__ = ["AnswerMCP", "MCPServer", "MCPServerError", "Progress", "elicit", "load_servers", "serve"]

# Where these names are. A module is imported when one of its names is first used.
_MODULES = {
    "graphexec.integrations.mcp.configuration": "load_servers",
    "graphexec.integrations.mcp.elicitation": "AnswerMCP elicit",
    "graphexec.integrations.mcp.results": "Progress",
    "graphexec.integrations.mcp.servers": "MCPServer",
    "graphexec.integrations.mcp.serving": "serve",
    "graphexec.integrations.mcp.sessions": "MCPServerError",
}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    _find_name, __dir__ = import_on_use(__name__, _MODULES)

    def __getattr__(name: str) -> object:
        try:
            return _find_name(name)
        except ModuleNotFoundError as error:
            # A part of the SDK, which older ones do not have, or do not need.
            if str(error.name).partition(".")[0] not in ("mcp", "mcp_types", "httpx2", "anyio"):
                raise
            raise ImportError(f"{__name__}.{name} needs mcp; pip install 'graphexec-agents[mcp]'") from None
