"""Loop nests as theorems of Rocq: what a nest leaves in its output is what its program means."""
