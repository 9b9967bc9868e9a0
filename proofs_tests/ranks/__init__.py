"""Tests of distributed programs."""
