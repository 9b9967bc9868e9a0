"""Programs to look at: `atl show examples/matmul.py`, `atl run examples/windows.py x=x.npy k=3`."""
