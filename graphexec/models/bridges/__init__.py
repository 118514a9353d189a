"""Models of other libraries as models of graphexec: their requests, connections and keys stay theirs."""
