"""Random sparse tensors through kernels: `atl fuzz sparse`."""
