"""Requests to a model's server, whatever its protocol: connections, attempts, failures. Internal."""
