"""Origins of loops: the binder of the program that each loop of its kernel came from."""
