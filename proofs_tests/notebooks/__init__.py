"""Notebooks: how values look in them, and those of the documents, executed and compared with what is stored."""
