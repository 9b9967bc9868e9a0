"""Rules: random tests, exhaustive tests at small sizes, proofs and mutants."""
