"""Replies of models, and changes to them: those that keep the decision, and those that make it unclear."""
