"""Tests of the machine model."""
