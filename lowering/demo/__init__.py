"""The demonstration: blurring a photograph."""
