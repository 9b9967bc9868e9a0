"""Tests of the prover: proved goals have no counterexample, refutations show one."""
