"""Printing of programs as text and as LaTeX: names, notation, layout."""
