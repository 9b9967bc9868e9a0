"""Theorems as files, which the kernel replays."""
