"""Exceptions carry data as attributes."""

from graphexec.errors import ContextOverflowError, RateLimitError


def test_errors_carry_their_numbers() -> None:
    error = RateLimitError("slow down", status=429, retry_after=2.0)
    assert (str(error), error.status, error.retry_after) == ("slow down", 429, 2.0)
    error = ContextOverflowError("too long", status=400, prompt_tokens=9, context_tokens=8)
    assert (error.status, error.prompt_tokens, error.context_tokens) == (400, 9, 8)
