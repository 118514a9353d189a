"""The command `chat`: a conversation with an agent, and the slash commands that look into it."""
