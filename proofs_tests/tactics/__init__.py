"""Tactics: what they make of programs of every day, and that no test is left in an inner loop."""
