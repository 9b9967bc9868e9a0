"""What the command line reads and writes: programs in Python files, arrays in NumPy's."""
