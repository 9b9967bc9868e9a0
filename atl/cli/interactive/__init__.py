"""A derivation held in a terminal: `atl derive FILE`."""
