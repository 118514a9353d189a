"""A table as a graph: the edges that were added, nodes that no run can avoid, and a networkx graph.

A person approves each tool call. A test can check on the table that no tool is called without approval.
"""

import networkx as nx

from graphexec import END, AgentFinish, AskHuman, Asks, ask, edges, node, on, splice
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    Stopped,
    dispatch_tools,
    limit_reached,
    parse,
    stopped_response,
)
from graphexec.verify import dominates, shortest_path


@node(when_spent=limit_reached, asks=1)
def approve(acted: Acted) -> Asks[AskHuman, Acted | AgentFinish]:
    """Ask a person about each call."""
    answer = yield from ask(AskHuman(f"Call {', '.join(action.tool for action in acted.actions)}? (yes/no)"))
    return acted if answer == "yes" else AgentFinish({"output": "Not approved."})


rows = edges(approve, on(Acted, dispatch_tools) | on(AgentFinish, END) | on(Stopped, stopped_response))
machine = splice(AGENT_EXECUTOR, rows, after=parse, on=Acted)

if __name__ == "__main__":
    print("What was added:")
    print(*(edge for edge in machine.edges if edge not in AGENT_EXECUTOR.edges), sep="\n")

    print("Each call of tools is approved:", dominates(machine, approve, dispatch_tools, outcome=Acted, each=True))
    print("Each run passes parse:", dominates(machine, parse, END))
    print("One that does not:", *shortest_path(machine, END, avoiding=parse) or (), sep="\n  ")

    network = machine.to_networkx()
    print("What its nodes ask for:")
    for name in network:
        if effects := network.nodes[name]["effects"]:
            print(f"  {name}: {effects}")
    for loop in sorted(nx.simple_cycles(network), key=len):
        first = loop.index("plan")
        print("A loop:", *loop[first:], *loop[:first])
    print("As GraphML, for other programs:")
    print(*(line for line in nx.generate_graphml(network) if '<edge source="approve"' in line), sep="\n")
