"""What a command is, and what a terminal shows."""
