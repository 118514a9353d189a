"""Proofs of termination: the flow, its ranking, its bounds, and the certificate. `graphexec.verify` exports them."""
