"""Checks of programs: facts in scope, well-formedness, and safe accesses."""
