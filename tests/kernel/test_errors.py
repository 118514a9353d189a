"""Exceptions carry data as attributes."""

from graphexec.errors import ContextOverflowError, RateLimitError


def test_errors_carry_their_numbers() -> None:
    slow = RateLimitError("slow down", status=429, retry_after=2.0)
    assert (str(slow), slow.status, slow.retry_after) == ("slow down", 429, 2.0)
    long = ContextOverflowError("too long", status=400, prompt_tokens=9, context_tokens=8)
    assert (long.status, long.prompt_tokens, long.context_tokens) == (400, 9, 8)
