"""An executor as a runnable of LangChain, which others are composed with by `|`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing
from functools import partial
from typing import Any, final

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableGenerator
from langchain_core.runnables.utils import AddableDict
from pydantic import BaseModel, create_model

from graphexec.executor.executor import AgentExecutor
from graphexec.integrations.langchain.chunks import astream_chunks, stream_chunks
from graphexec.integrations.langchain.conversion import convert_messages
from graphexec.runs.questions import Waiting


# Any: inputs of a chain, and options of a run, which the executor checks.
@final
class ExecutorRunnable(RunnableGenerator[Any, Any]):
    """A runnable that runs an executor; `as_runnable` makes it."""

    def __init__(self, executor: AgentExecutor[Any], name: str) -> None:
        self.executor = executor
        super().__init__(self._stream, self._astream, name=name)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002 - its name
        """Return the inputs and the outputs of a run, as `executor.invoke` does."""
        return self._call_with_config(partial(self._invoke, options), input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002
        """Run like `invoke`, on the running event loop."""
        return await self._acall_with_config(partial(self._ainvoke, options), input, config)

    def _invoke(self, options: Mapping[str, Any], inputs: Any) -> Any:
        return _require_outputs(self.executor.invoke(_convert(inputs), **options))

    async def _ainvoke(self, options: Mapping[str, Any], inputs: Any) -> Any:
        return _require_outputs(await self.executor.ainvoke(_convert(inputs), **options))

    def _stream(self, inputs: Iterator[Any], **options: Any) -> Iterator[Any]:
        whole = next(inputs)
        for piece in inputs:
            whole = whole + piece
        with closing(stream_chunks(self.executor, _convert(whole), **options)) as chunks:
            yield from map(AddableDict, chunks)

    async def _astream(self, inputs: AsyncIterator[Any], **options: Any) -> AsyncIterator[Any]:
        whole = await anext(inputs)
        async for piece in inputs:
            whole = whole + piece
        async with aclosing(astream_chunks(self.executor, _convert(whole), **options)) as chunks:
            async for chunk in chunks:
                yield AddableDict(chunk)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:  # noqa: ARG002 - as there
        """Return a model of the inputs that a run needs."""
        # The fields are known when the executor is made.
        fields: Any = dict.fromkeys(self.executor.input_keys, (Any, ...))
        return create_model("Inputs", **fields)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:  # noqa: ARG002
        """Return a model of the outputs."""
        return create_model("Outputs", output=(Any, ...))


def _convert(inputs: Any) -> Any:
    """Return inputs, with messages of LangChain in our classes."""
    held: Any = inputs
    if not isinstance(inputs, dict):
        return inputs
    return {key: convert_messages(value) if _has_messages(value) else value for key, value in held.items()}


def _has_messages(value: Any) -> bool:
    held: Any = value
    return isinstance(value, list) and any(isinstance(one, BaseMessage) for one in held)


def _require_outputs(outputs: Any) -> Any:
    """Return the outputs of a run. Raises `RunStoreError`, with the questions, for one that has to wait."""
    if isinstance(outputs, Waiting):
        raise outputs.to_error()
    return outputs
