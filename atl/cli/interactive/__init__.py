"""Interactive rewriting sessions in a terminal: `atl derive FILE`."""
