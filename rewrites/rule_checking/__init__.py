"""Checking rules: random samples, exhaustive checks at small sizes, proofs for all sizes."""
