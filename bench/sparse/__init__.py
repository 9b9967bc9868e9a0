"""Sparse kernels: ours beside TACO-shaped C, scipy and numba: `python -m bench.sparse`."""
