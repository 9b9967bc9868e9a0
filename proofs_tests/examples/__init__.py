"""The examples that are shipped, each beside NumPy at every kind of size."""
