"""Layouts that are linear over F2: named dimensions of powers of two, whose bits are taken to bits by a matrix."""
