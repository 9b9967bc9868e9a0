"""Loops whose mark changes how they run: merges, segmented reductions (`runs`) and non-temporal stores (`stream`)."""
