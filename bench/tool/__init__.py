"""What the tool itself costs: as programs grow, and part by part, each run as `python -m bench.tool.NAME`."""
