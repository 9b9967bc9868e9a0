"""Tests of the shipped examples: agreement with NumPy at sizes of all kinds."""
