"""The rules that an agent names, as nodes: what is checked between the model's reply and the call of a tool.

Two nodes look at the reply before it is parsed, and may ask the model for another one. Two more answer the calls that a
rule forbids, so that their tools are not called: the observation of the step says why.
"""

from graphexec.executor.rules.calls import CallRules
from graphexec.executor.rules.nodes import (
    answer_repeats,
    avoid_dummies,
    dispatch_known_tools,
    nodes_of_rule,
    refuse_dummies,
    refuse_repeats,
    require_rules,
)

__all__ = [
    "CallRules",
    "answer_repeats",
    "avoid_dummies",
    "dispatch_known_tools",
    "nodes_of_rule",
    "refuse_dummies",
    "refuse_repeats",
    "require_rules",
]
