"""Each part of the prover by itself: what it may conclude, how much it does, what it tells the next one."""
