"""Places of a program: sites, and the ways to choose them."""
