"""The commands that run an agent: their options, the executor that these select, and the loop that follows a run."""
