"""Timing kernels: contestants that take turns, and schedules of one program that are compared with each other."""
