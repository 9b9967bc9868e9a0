"""Benchmarks of ATL itself (rewriting, checking, lowering, search), each run as `python -m bench.tool.NAME`."""
