"""What is proved of layouts: equal, injective, bijective, each with a witness where it is not so; and their places."""
