"""The Model Context Protocol: an executor as a server of tools, `pip install 'graphexec-agents[mcp]'`.

Names are imported from here. The SDK is imported when one of them is first used.
"""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.integrations.mcp.serving import serve

__all__ = ["serve"]

# Where these names are. A module is imported when one of its names is first used.
_MODULES = {"graphexec.integrations.mcp.serving": "serve"}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES)
