"""What makes the claims true: rules of the repository, rule proofs, differential tests, mutation and fuzzing."""
