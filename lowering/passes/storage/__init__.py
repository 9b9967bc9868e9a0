"""Passes about where tensors are kept: in registers, in rings, on the stack, in the storage of one another."""
