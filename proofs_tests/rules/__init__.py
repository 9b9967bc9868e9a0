"""Rules: sampled, exhausted at small sizes, proved for all sizes; and their mutants."""
