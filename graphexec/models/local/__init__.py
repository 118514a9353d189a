"""A model on this machine: its weights, its process, and its client. `graphexec.models` exports it."""
