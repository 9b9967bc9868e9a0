"""Loop nests printed as C11."""
