"""The repository itself: its storeys, its documents, its command line and its benchmark."""
