"""How far a rule is known to be true: sampled, exhausted at small sizes, proved for all sizes."""
