"""Tactics that derive sparse kernels: what is read of a decompressed operand is computed from its stored entries."""
