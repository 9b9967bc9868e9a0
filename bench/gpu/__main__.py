"""`python -m bench.gpu`. NumPy is the only package that it requires."""

import sys
from importlib.util import find_spec

if __name__ == "__main__":
    if find_spec("numpy") is None:
        print("bench.gpu: numpy is not installed; run: python -m pip install numpy", file=sys.stderr)
        sys.exit(3)
    from bench.gpu.command import main

    sys.exit(main())
