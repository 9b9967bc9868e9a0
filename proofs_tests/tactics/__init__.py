"""Tests of tactics on common programs."""
