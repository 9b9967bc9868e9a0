"""Tactics on storage layouts and loop orders, given by invertible index functions."""
