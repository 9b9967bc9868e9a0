"""Tactics on nests of loops: their order, tiles, and the guards that become their bounds."""
