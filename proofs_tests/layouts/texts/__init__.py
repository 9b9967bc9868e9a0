"""Tests of layouts as text: parsing, printing, queries, descriptions."""
