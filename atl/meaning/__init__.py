"""What programs mean: the reference interpreter, the scalars that it computes with, and the arguments of a call."""
