"""Programs as text and as LaTeX: names, notation, printing."""
