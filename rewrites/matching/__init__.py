"""Matching: finding the arguments of a rule, and following names, marks and places through a rewrite."""
