"""The C that loop nests become, how it is built, and what a call takes and gives."""
