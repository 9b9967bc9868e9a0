"""Layouts for people: as a grid of text or SVG, read from text, and with the steps of an operation."""
