"""Linear layouts: the tables of expected values, every operation beside enumeration, and bank conflicts by count."""
