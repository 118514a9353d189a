"""The state machine itself: nodes, the table, the engine, snapshots. Pure: no I/O, no clock, no randomness."""
