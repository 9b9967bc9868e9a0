"""Layouts against plain enumeration: nothing in here uses what it tests."""
