"""Baselines: libraries, Halide, numba and hand-written C, each in the fastest form that we know."""
