"""An agent on the local model: one JSON decision per step, for models that cannot call tools.

The first run fetches the weights (about 93 MB). The model is small: most of its answers are right, but none is certain.
Every run ends.
"""

import sys

from graphexec import create_agent
from graphexec.models import LocalModel
from graphexec.tools.everyday import calculator

model = LocalModel()
executor = create_agent(model, [calculator], kind="structured", max_iterations=5, max_execution_time=120)

if __name__ == "__main__":
    question = " ".join(sys.argv[1:]) or "What is 37 * 48?"
    with model:
        result = executor.run(question)
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.stopped.reason if result.stopped else result.output)
