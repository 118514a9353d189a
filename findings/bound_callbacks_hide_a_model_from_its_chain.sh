#!/usr/bin/env bash
# langchain-core 1.8.3: callbacks bound to a model with `with_config`, and the tracer of the chain around it.
#
# A model that is called inside a chain reports to the callbacks of the chain by a context variable, and one with bound
# tags or metadata still does. One with bound callbacks does not: they take the place of those of the chain, and so does
# an empty list, so the call, its tokens and its children are missing in the trace of the whole. A good guess is wrong,
# because tags and metadata are merged, and because the same callbacks given to `invoke` of the chain are added to those
# of its constructor. It is met where a program counts tokens by a callback of its model, and is traced by its server.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install langchain-core==1.8.3
"$folder/env/bin/python" - <<'PYTHON'
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda


class Counter(BaseCallbackHandler):
    def __init__(self):
        self.models = 0

    def on_chat_model_start(self, *args, **kwargs):
        self.models += 1


def seen(config):
    tracer = Counter()
    model = FakeListChatModel(responses=["hi"]).with_config(config)
    RunnableLambda(lambda text: model.invoke(text)).invoke("question", {"callbacks": [tracer]})
    return tracer.models


found = {
    "tags": seen({"tags": ["mine"]}),
    "metadata": seen({"metadata": {"user": "ada"}}),
    "callbacks": seen({"callbacks": [Counter()]}),
    "no callbacks": seen({"callbacks": []}),
}
print("calls of the model that the tracer of the chain sees, by what is bound to the model:", found)
assert found == {"tags": 1, "metadata": 1, "callbacks": 0, "no callbacks": 0}, found
PYTHON
