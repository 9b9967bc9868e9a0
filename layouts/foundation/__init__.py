"""Building blocks of layouts: nested tuples, extents, semimodules of strides, functions on boxes, tables."""
