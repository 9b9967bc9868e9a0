"""Tests of sparse formats, and of the kernels that are derived for them."""
