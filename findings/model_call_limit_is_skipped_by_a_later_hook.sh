#!/usr/bin/env bash
# langchain 1.5.2 with langgraph 1.2.24: `ModelCallLimitMiddleware` beside a hook that asks the model again.
#
# A limit of three model calls holds or does not, by its place in `middleware=[...]`. It compares in `before_model`, and
# counts in `after_model`. The hooks of `after_model` run from the last of the list to the first, and one that returns
# `jump_to="model"` skips all that are left: with the limit first in the list, such a hook leaves before the call is
# counted, and six calls are made. A good guess is wrong, because the first place looks like the outermost one, which
# sees every call; nothing is reported. It takes two parts that are right by themselves: the limit, and a hook that asks
# again after an empty answer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install langchain==1.5.2 langgraph==1.2.24
"$folder/env/bin/python" - <<'PYTHON'
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, after_model
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


@after_model(can_jump_to=["model"])
def ask_again(state, runtime):
    """Ask again if the answer is empty."""
    return None if state["messages"][-1].content else {"jump_to": "model"}


def count(order):
    asked = 0

    def answers():
        nonlocal asked
        for text in ["", "", "", "", "", "Done."]:
            asked += 1
            yield AIMessage(text)

    limit = ModelCallLimitMiddleware(run_limit=3, exit_behavior="end")
    middleware = [limit, ask_again] if order == "first" else [ask_again, limit]
    agent = create_agent(GenericFakeChatModel(messages=answers()), [], middleware=middleware)
    agent.invoke({"messages": [("user", "Hi")]})
    return asked


calls = {order: count(order) for order in ("first", "last")}
print(f"model calls under run_limit=3, with the limit first and last in the list: {calls['first']}, {calls['last']}")
assert calls == {"first": 6, "last": 3}, calls
PYTHON
