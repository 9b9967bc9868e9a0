"""Scheduling by proof: rules, the kernel that makes theorems, tactics and sessions."""
