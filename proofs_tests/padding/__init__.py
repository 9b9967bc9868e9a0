"""Tests of pad-sets: inference compared with evaluation, and the safety of truncations."""
