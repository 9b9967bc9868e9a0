"""Standard storage formats for tensors of a program."""
