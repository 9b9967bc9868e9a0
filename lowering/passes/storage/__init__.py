"""Passes that place tensors: registers, storage folding, stack, and buffer reuse."""
