"""Tests of the prover's layers."""
