"""Catalogue of errors: for every code an example that causes it, its message and a correction."""
