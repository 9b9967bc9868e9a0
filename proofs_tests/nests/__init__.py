"""Loop nests: their interpreter, the passes over them, and whether loops may run as they are marked."""
