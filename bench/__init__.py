"""Benchmarks of compiled kernels against other systems that do the same work."""
