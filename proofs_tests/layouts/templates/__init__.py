"""Templates: the form of each index, what is refused, and every kernel of the paper, run."""
