"""Checks that call the user's own code: tools, agent functions, memories, observers and policies, under a watchdog."""
