"""The independent checker of certificates, which imports nothing of the prover. Internal."""
