"""From a model's text to an answer and a belief chain, and from a chain to its metrics."""
