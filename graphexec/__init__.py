"""LLM agents as an explicit, typed state machine."""
