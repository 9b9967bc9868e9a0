"""Kernels that are taken away: their text with a contract, a check that draws its own data, and what builds them."""
