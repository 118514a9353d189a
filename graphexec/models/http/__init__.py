"""Requests to model servers, independent of the protocol: connections, attempts, failures. Internal."""
