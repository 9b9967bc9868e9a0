"""Tests of bounds on the rounding errors of kernels."""
