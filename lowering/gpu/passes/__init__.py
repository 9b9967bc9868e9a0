"""Passes over the loop nest of a kernel, before barriers are inserted."""
