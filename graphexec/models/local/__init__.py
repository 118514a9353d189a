"""A model on this machine: its weights, its server process and its client. `graphexec.models` exports it."""
