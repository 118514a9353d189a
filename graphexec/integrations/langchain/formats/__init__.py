"""LangChain's other agents, with compatible prompts and parsers: `graphexec.agents` exports them."""
