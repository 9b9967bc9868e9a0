"""Tactics on loop nests: order, tiling, and turning guards into loop bounds."""
