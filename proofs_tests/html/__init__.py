"""Tests of HTML pages: their text, and their behaviour in a browser."""
