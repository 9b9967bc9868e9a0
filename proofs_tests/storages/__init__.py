"""Tensors of programs stored through layouts, and loops in the order of places."""
