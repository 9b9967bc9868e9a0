"""Tests of tensors stored through layouts, and of loops in the order of storage."""
