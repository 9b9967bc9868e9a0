"""Tests of instructions: declarations, matching, legality, calls in CUDA and C."""
