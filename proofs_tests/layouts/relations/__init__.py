"""Tests of isl relations of all layout families, compared with enumeration."""
