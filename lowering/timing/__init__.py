"""Timing of kernels, and comparison of schedules of one program."""
