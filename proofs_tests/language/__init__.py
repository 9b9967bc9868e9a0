"""The language: its terms, their text, their marks and what they mean."""
