"""Interactive sessions: calls, how they look, and why one was refused."""
