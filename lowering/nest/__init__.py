"""Loop nests: representation, interpreter, proof obligations and pseudocode."""
