"""Tactics about where elements are stored, and in which order loops run: by index functions with a way back."""
