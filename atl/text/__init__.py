"""Programs as text, LaTeX and back: names, printing, parsing."""
