"""The prover: what it proves has no counterexample, and what it refutes has the one it shows."""
