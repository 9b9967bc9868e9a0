"""The demonstration: a photograph, blurred."""
