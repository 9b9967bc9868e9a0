"""Texts of the helper functions that generated C calls."""
