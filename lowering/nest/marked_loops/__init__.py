"""Loops that walk through sorted keys: merges of several positions, and runs of equal keys."""
