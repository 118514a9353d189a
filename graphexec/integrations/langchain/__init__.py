"""For users of LangChain: its executor and older agents, its runnables, messages and models, its chunks and `iter`.

Names are imported from here. Elsewhere it is imported only when an object of LangChain is met, and it imports LangChain
only for its models, for its executor, and for executors as runnables.
"""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.integrations.langchain.chunks import Chunk, astream_chunks, stream_chunks
    from graphexec.integrations.langchain.conversion import convert_messages
    from graphexec.integrations.langchain.dropin.executor import AgentExecutor, AgentExecutorIterator
    from graphexec.integrations.langchain.formats.json_actions import (
        create_chat_agent,
        create_json_chat_agent,
        create_structured_chat_agent,
    )
    from graphexec.integrations.langchain.formats.labelled_text import create_conversational_agent, create_mrkl_agent
    from graphexec.integrations.langchain.formats.self_ask import create_self_ask_agent
    from graphexec.integrations.langchain.formats.xml import create_xml_agent
    from graphexec.integrations.langchain.models import LangChainModel, from_langchain
    from graphexec.integrations.langchain.runnables import Planner, Runnable, as_runnable, runnable_agent
    from graphexec.integrations.langchain.stepwise import Stepwise, iterate

__all__ = [
    "AgentExecutor",
    "AgentExecutorIterator",
    "Chunk",
    "LangChainModel",
    "Planner",
    "Runnable",
    "Stepwise",
    "astream_chunks",
    "convert_messages",
]
__all__ += ["create_chat_agent", "create_conversational_agent", "create_json_chat_agent", "create_mrkl_agent"]
__all__ += ["create_self_ask_agent", "create_structured_chat_agent", "create_xml_agent"]
__all__ += ["as_runnable", "from_langchain", "iterate", "runnable_agent", "stream_chunks"]

# Where these names are. A module is imported when one of its names is first used: a program needs few of them.
_MODULES = {
    "graphexec.integrations.langchain.chunks": "Chunk astream_chunks stream_chunks",
    "graphexec.integrations.langchain.conversion": "convert_messages",
    "graphexec.integrations.langchain.dropin.executor": "AgentExecutor AgentExecutorIterator",
    "graphexec.integrations.langchain.formats.json_actions": "create_chat_agent create_json_chat_agent "
    "create_structured_chat_agent",
    "graphexec.integrations.langchain.formats.labelled_text": "create_conversational_agent create_mrkl_agent",
    "graphexec.integrations.langchain.formats.self_ask": "create_self_ask_agent",
    "graphexec.integrations.langchain.formats.xml": "create_xml_agent",
    "graphexec.integrations.langchain.models": "LangChainModel from_langchain",
    "graphexec.integrations.langchain.runnables": "Planner Runnable as_runnable runnable_agent",
    "graphexec.integrations.langchain.stepwise": "Stepwise iterate",
}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES)
