"""Positions of nodes, edges and labels. Internal."""
