"""Tactics on storage: binding, hoisting, staging, packing and padding."""
