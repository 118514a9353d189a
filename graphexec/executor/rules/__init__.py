"""The rules that an agent names, as nodes: what is checked between the model's reply and the call of a tool.

Two nodes look at the reply before it is parsed, and may ask the model for another one. The node that calls tools
enforces the rules: it does not make a call that one forbids, and the observation of its step says why.
"""

from graphexec.executor.rules.calls import CallRules
from graphexec.executor.rules.nodes import add_rules, answer_repeats, avoid_dummies, dispatch_allowed

__all__ = ["CallRules", "add_rules", "answer_repeats", "avoid_dummies", "dispatch_allowed"]
