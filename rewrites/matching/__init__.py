"""Finding a rule's arguments: patterns, matching, and what of a term goes on after a rewrite."""
