"""Runs as records, and the pictures made of them. `graphexec.draw` exports them."""
