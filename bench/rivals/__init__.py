"""The same work by others: libraries, Halide, numba, and C written by hand, each in its best form that we know."""
