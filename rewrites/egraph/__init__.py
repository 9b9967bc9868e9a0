"""The e-graph: many equal programs at once, a cost model that picks one, and the kernel that proves the way to it."""
