"""A layout as a way to store a tensor: by strides, and bit by bit."""
