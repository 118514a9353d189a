"""Tests of the executor, the tools and the agents."""
