"""Wrappers of models: caches, retries, fallbacks, rate limits, prices. `graphexec.models` exports them."""
