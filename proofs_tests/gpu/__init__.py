"""Kernels of a GPU: their legality, their text, and how they run without one."""
