"""Reindexings that store a tensor by a layout: by strides, by bits, and in segments."""
