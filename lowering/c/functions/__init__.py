"""The functions of our own that generated C calls, as texts."""
