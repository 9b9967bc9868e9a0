"""Printing of kernels as CUDA."""
