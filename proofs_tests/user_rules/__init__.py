"""User-defined rules and tactics."""
