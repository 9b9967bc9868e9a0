"""CUDA text of kernels."""
