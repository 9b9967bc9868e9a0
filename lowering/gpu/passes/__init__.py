"""Passes over the loop nest of a kernel, before it is one."""
