"""Read what models write: JSON, and reasoning in tags."""
