"""A conversation that outlives the process: each turn is kept in SQLite, and the next run is told what was said.

Every run here makes its executor and its memory anew, as another process would. Two people share the file, and neither
is told of the other. The model is scripted, so that the example runs anywhere; see `react.py` for real ones.
"""

import tempfile
from pathlib import Path

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.memory import SQLiteHistory, WindowMemory
from graphexec.messages import ChatRequest
from graphexec.models import ScriptedModel

model = ScriptedModel(["Nice to meet you, Ada.", "I do not know.", "You are Ada.", "Because you told me."])
agent = create_tool_calling_agent(model, [])


def talk_with(person: str, file: Path) -> AgentExecutor:
    """An executor that knows the last ten turns with this person. The file keeps all of them."""
    history = SQLiteHistory(file, conversation=person)
    return AgentExecutor(agent=agent, tools=[], memory=WindowMemory(10, history=history, as_messages=True))


# The file is opened by the first run.
executor = talk_with("somebody", Path("talk.db"))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        talk = Path(folder) / "talk.db"
        for person, said in [
            ("Ada", "I am Ada."),
            ("Bo", "Who am I?"),
            ("Ada", "Who am I?"),
            ("Ada", "How do you know?"),
        ]:
            answer = talk_with(person, talk).invoke(said)["output"]
            print(f"{person}: {said} -> {answer}")
    told = model.requests[-1]
    assert isinstance(told, ChatRequest)
    print("What the model was told the last time:")
    for message in told.messages:
        print(f"  {message.role}: {message.content}")
