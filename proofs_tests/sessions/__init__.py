"""Tests of sessions: effect of each call, error messages, random derivations."""
