"""The catalogue of errors: every code with an input that causes it, its message, and the cure that it suggests."""
