"""Suggestions of calls that apply at a place, with their results: `s.applicable()`."""
