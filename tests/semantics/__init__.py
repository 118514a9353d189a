"""What the agent loop means: the tables of its semantics, each row held by a test."""
