"""The linear layer: systems of integer rows, decided by intervals, elimination and case splits."""
