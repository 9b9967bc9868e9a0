"""The searches: for schedules in a graph of equal programs, and for parameters by measuring."""
