"""What is true of pages: their text, and what they do in a browser."""
