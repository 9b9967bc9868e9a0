"""Tests of notebooks: displays of values, and execution of the documents' notebooks."""
