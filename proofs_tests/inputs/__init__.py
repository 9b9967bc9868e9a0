"""Malformed use of the library: calls, texts, files, names and commands."""
