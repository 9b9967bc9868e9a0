"""Pad-sets: inferred beside what is evaluated, and what may be truncated."""
