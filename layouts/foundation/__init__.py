"""What layouts are made of: nested tuples, extents, semimodules of strides, layouts and other functions, tables."""
