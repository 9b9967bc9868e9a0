"""Certificates: theorems saved to files and replayed by the kernel."""
