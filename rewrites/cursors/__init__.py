"""Cursors: places in a program, and the ways to choose them."""
