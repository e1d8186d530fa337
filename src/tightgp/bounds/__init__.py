"""Bounds on the log evidence: the structures of V, the streamed pass over the rows, and what follows from its sums."""
