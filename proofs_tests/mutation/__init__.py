"""Mutation testing of the trusted packages."""
