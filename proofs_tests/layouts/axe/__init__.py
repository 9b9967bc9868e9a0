"""Axe's words: the tables of expected values, and every operation beside enumeration of sets of places."""
