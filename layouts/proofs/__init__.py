"""Proofs about layouts: equality, injectivity, bijectivity, each with a witness when refuted; images and inverses."""
