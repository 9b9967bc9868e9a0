"""Which binder of a program each loop of its kernel came from: carried by the nest, and by the text that is printed."""
