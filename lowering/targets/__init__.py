"""Capabilities of the targets: supported marks, storage limits, and legality of marked loops."""
