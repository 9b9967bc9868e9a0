"""Bounds on rounding errors, which are computed from loop nests."""
