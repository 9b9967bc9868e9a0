"""Tests of loop nests: their interpreter, the passes over them, and the legality of marks."""
