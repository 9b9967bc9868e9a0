"""Tests of loops over sorted keys (co-iteration, segmented reduction) and of non-temporal stores."""
