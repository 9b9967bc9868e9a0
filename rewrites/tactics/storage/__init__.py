"""Tactics about what is kept: bound, hoisted, staged, packed and padded."""
