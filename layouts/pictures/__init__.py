"""Layouts as text: drawn as grids (text or SVG), parsed, and explained step by step."""
