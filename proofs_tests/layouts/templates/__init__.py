"""Tests of templates: forms of indices, refusals, and the kernels of the LEGO paper."""
