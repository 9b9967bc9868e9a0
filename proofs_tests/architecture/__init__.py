"""Tests of the repository: its layers, documents, command line and benchmark."""
