"""Outputs of a run with an output type that are used as another class."""

from dataclasses import dataclass

from graphexec import AgentExecutor, create_agent


@dataclass
class Answer:
    total: int


executor = create_agent("local", [], output_type=Answer)
other: AgentExecutor[str] = executor  # error: mypy assignment, pyright reportAssignmentType
text: str = executor.run("q").output  # error: mypy assignment, pyright reportAssignmentType
executor.run("q").output.sum  # error: mypy attr-defined, pyright reportAttributeAccessIssue
executor.plug().run("q").output.sum  # error: mypy attr-defined, pyright reportAttributeAccessIssue
