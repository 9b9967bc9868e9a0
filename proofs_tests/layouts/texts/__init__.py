"""Layouts of all families as text: read, printed, asked about, described."""
