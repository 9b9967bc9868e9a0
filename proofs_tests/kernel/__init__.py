"""The kernel and certificates: steps, refusals and replay."""
