"""The language: terms, their text and their meaning."""
