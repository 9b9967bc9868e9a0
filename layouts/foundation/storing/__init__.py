"""A layout as a way to store a tensor: by strides, bit by bit, and in segments."""
