"""Random programs over all constructs, and the four ways to compute one that must agree."""
