"""What waits: the loop around the engine, its threads and tasks, and the handlers that answer effects."""
