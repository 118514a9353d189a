"""LangChain's older agents, with compatible prompts and parsers."""
