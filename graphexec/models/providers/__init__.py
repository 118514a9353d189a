"""The protocols of providers, and a model for each: `graphexec.models` exports them."""
