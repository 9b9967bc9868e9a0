"""Values in C: indices and what they may be, numbers, vectors, and what a store or load names."""
