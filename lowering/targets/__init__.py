"""What the targets of lowering can do."""
