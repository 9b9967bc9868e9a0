"""Printing of values in C: indices and their ranges, scalars, vectors, loads and stores."""
