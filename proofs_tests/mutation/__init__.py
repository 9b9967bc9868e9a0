"""Faults planted in the trusted rooms, one at a time: whether the tests find them."""
