"""Adversarial tests of the kernel, of user-defined rules and of the prover."""
