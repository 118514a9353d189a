"""A conversation that outlives the process: each turn is stored in SQLite, and the next run loads it.

Each run creates its own executor and memory, as another process would. Two people share the file but not their
conversations. The model is scripted, so that the example runs anywhere; see `react.py` for real ones.
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
    """Return an executor that loads the last ten turns with this person. The file keeps all of them."""
    history = SQLiteHistory(file, conversation=person)
    return AgentExecutor(agent=agent, tools=[], memory=WindowMemory(10, history=history, as_messages=True))


# The first run opens the file.
executor = talk_with("Ada", Path("talk.db"))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        talk = Path(folder) / "talk.db"
        for person, question in [
            ("Ada", "I am Ada."),
            ("Bo", "Who am I?"),
            ("Ada", "Who am I?"),
            ("Ada", "How do you know?"),
        ]:
            answer = talk_with(person, talk).invoke(question)["output"]
            print(f"{person}: {question} -> {answer}")
    request = model.requests[-1]
    assert isinstance(request, ChatRequest)
    print("The last request to the model:")
    for message in request.messages:
        print(f"  {message.role}: {message.content}")
