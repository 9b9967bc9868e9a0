"""Interactive sessions: their calls, how they are displayed, and diagnostics for calls that fail."""
