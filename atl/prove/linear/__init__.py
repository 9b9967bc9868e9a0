"""The linear prover: systems of integer rows, decided by intervals, elimination and case analysis."""
