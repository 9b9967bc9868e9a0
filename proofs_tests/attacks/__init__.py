"""Attacks on what the theorems stand on: the kernel and the prover, asked what no reasonable user would ask."""
