"""Tests of the library: rules of the repository, proofs of rules, differential tests, mutation tests and fuzzers."""
