"""Loops that walk through sorted keys: random merges and runs, planted faults, and what is refused."""
