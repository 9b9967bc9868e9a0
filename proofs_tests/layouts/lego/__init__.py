"""Tests of LEGO layouts: chains of links, partial tiles, slices, refusals."""
