"""Example programs and schedules. Try `atl show examples/matmul.py` or `atl run examples/windows.py x=x.npy k=3`."""
