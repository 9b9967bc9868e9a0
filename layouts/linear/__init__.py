"""Layouts that are linear over F2: bit matrices between named dimensions whose sizes are powers of two."""
