"""Tests of generated C: its text, builds, and calls of kernels."""
