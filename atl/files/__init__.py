"""Files: Python files with programs, NumPy arrays, and atomic writes."""
