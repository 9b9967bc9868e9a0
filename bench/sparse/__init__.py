"""Benchmarks of sparse kernels against TACO-shaped C, scipy and numba: `python -m bench.sparse`."""
