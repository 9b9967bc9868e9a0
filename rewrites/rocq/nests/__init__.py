"""Loop nests as files of Rocq, with proofs that they are safe and compute their programs."""
