"""Tests of recipes, of `s.optimize()`, and of `atl.kernel`."""
