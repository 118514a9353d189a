"""Models around models: caches, retries, fallbacks, rates, prices. `graphexec.models` exports them."""
