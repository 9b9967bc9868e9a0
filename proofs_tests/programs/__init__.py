"""Random programs over all constructs, computed in four ways that must agree."""
