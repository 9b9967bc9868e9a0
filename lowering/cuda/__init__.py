"""CUDA text of kernels, and what a compiler makes of it."""
