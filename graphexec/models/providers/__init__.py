"""The protocols of the providers, with a model class for each. `graphexec.models` exports them."""
