"""Derivation of sparse kernels: dense loops over a decompressed operand become loops over its stored entries."""
