"""The meaning of programs: the reference interpreter, its scalars, and the arguments of calls."""
