"""Exceptions carry data as attributes."""

from graphexec.errors import ContextOverflowError, RateLimitError


def test_rate_limit_error_has_the_wait() -> None:
    error = RateLimitError("slow down", status=429, retry_after=2.0)
    assert (str(error), error.status, error.retry_after) == ("slow down", 429, 2.0)


def test_context_overflow_error_has_both_counts() -> None:
    error = ContextOverflowError("too long", status=400, prompt_tokens=9, context_tokens=8)
    assert (error.status, error.prompt_tokens, error.context_tokens) == (400, 9, 8)
