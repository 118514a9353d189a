"""The rules that an agent names, as nodes: what is checked between the model's reply and the call of a tool.

Each looks at the reply before it is parsed, and may ask the model again for another one. In any case, the
node that calls tools makes no call that a rule forbids: the call becomes a step with an observation.
"""

from graphexec.executor.rules.calls import CallRules
from graphexec.executor.rules.nodes import add_rules, answer_repeats, avoid_dummies, dispatch_allowed

__all__ = ["CallRules", "add_rules", "answer_repeats", "avoid_dummies", "dispatch_allowed"]
