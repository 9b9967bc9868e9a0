"""Kernels on a GPU of this machine: building by nvcc, memory and streams of CUDA, arrays that are there already."""
