"""Tactics for GPU kernels."""
