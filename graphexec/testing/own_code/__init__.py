"""Checks that call the user's code: tools, agent functions, memories, observers and policies, under a watchdog."""
