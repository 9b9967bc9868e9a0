"""Dot products of short vectors by instructions of CPUs."""

INSTRUCTIONS = ()
