"""Machines as models for other model checkers: Promela (SPIN) and TLA+ (TLC)."""
