"""The usual ways to store a tensor of a program."""
