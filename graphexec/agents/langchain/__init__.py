"""LangChain's other agents, with its prompts and its parsers: `graphexec.agents` exports them."""
