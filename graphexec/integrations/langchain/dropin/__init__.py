"""LangChain's `AgentExecutor` with the loop of this package: its class, its iterator, its machine and its tools."""
