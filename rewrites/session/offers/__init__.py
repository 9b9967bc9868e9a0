"""What applies at a place, by what it would give: `s.applicable()`."""
