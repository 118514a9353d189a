"""Calls during which a server asks, as those before the version 2026-07-28 do: they end as the calls of newer ones.

A newer server returns what it asks, and is called again with the responses. An older one sends a request while the call
goes on. Here such a call returns the request, stays open, and is continued by a state that only this process knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeAlias, final
from uuid import uuid4

import mcp_types as types

# Seconds after which a request counts as cancelled, so that no call stays open for ever.
_LONGEST = 600.0
# What the states of open calls begin with.
OPEN = "graphexec:"

_Result: TypeAlias = types.CallToolResult | types.InputRequiredResult
_Params: TypeAlias = types.ElicitRequestParams | types.CreateMessageRequestParams


@final
class _Call:
    """A call, with the requests that have not been returned yet, and the responses that are waited for, by key."""

    def __init__(self, calling: Coroutine[Any, Any, Any]) -> None:
        self.task = asyncio.create_task(calling)
        # The connection may end before anybody asks for the result.
        self.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.asked = asyncio.Event()
        self.is_waiting = True
        self.requests: dict[str, types.InputRequest] = {}
        # Any: a response of the class that belongs to the request.
        self.responses: dict[str, asyncio.Future[Any]] = {}


@final
class OpenCalls:
    """The calls of a session, by the state that continues them. All of it runs on one event loop."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    # Any: the context and the response of a callback.
    async def ask(self, _: Any, params: _Params) -> Any:
        """Return the response to a request of the server: a callback of the SDK's client."""
        # The request does not say which call it belongs to.
        calls = [one for one in self._calls.values() if one.is_waiting] or [*self._calls.values()]
        if len(calls) != 1:
            text = "only one call at a time can ask here; call the tool again, and no other one beside it"
            return types.ErrorData(code=types.INVALID_REQUEST, message=text)
        [call], key = calls, f"{OPEN}{uuid4().hex}"
        if isinstance(params, types.CreateMessageRequestParams):
            call.requests[key] = types.CreateMessageRequest(params=params)
        else:
            call.requests[key] = types.ElicitRequest(params=params)
        response = call.responses[key] = asyncio.get_running_loop().create_future()
        call.asked.set()
        done, __ = await asyncio.wait([response], timeout=_LONGEST)
        return response.result() if done else types.ErrorData(code=types.REQUEST_TIMEOUT, message="nobody answered")

    # Any: what the SDK returns of an older server is the result of the call.
    async def follow(self, calling: Coroutine[Any, Any, Any], timeout: float | None) -> _Result:
        """Return the result of a call, or what its server asks meanwhile. Raises `TimeoutError` after the seconds."""
        state = f"{OPEN}{uuid4().hex}"
        self._calls[state] = _Call(calling)
        return await self._wait(state, timeout)

    async def proceed(
        self, input_responses: Mapping[str, Any], request_state: str, timeout: float | None
    ) -> _Result | None:
        """Respond to what was asked, and return the result of the open call; `None` for the state of no such call."""
        call = self._calls.get(request_state)
        if call is None:
            return None
        for key, response in input_responses.items():
            call.responses.pop(key).set_result(response)
        return await self._wait(request_state, timeout)

    def cancel(self, state: str | None) -> None:
        """Cancel an open call, also at its server."""
        if (call := self._calls.pop(state or "", None)) is not None:
            call.task.cancel()

    async def _wait(self, state: str, timeout: float | None) -> _Result:
        call = self._calls[state]
        call.is_waiting, asked = True, asyncio.create_task(call.asked.wait())
        try:
            await asyncio.wait([call.task, asked], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.cancel(state)
            raise
        finally:
            call.is_waiting = False
            asked.cancel()
        if call.task.done():
            del self._calls[state]
            result: types.CallToolResult = call.task.result()
            return result
        if not call.requests:
            self.cancel(state)
            raise TimeoutError
        requests, call.requests = call.requests, {}
        call.asked.clear()
        return types.InputRequiredResult(input_requests=requests, request_state=state)
