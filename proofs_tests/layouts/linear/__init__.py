"""Tests of linear layouts: expected values, comparison with enumeration, bank conflicts."""
