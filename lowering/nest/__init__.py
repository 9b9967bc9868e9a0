"""Loop nests: what they are, how they run, what is proved of them, and how they are shown."""
