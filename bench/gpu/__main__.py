"""`python -m bench.gpu`: of Python's packages it needs NumPy alone."""

import sys
from importlib.util import find_spec

if __name__ == "__main__":
    if find_spec("numpy") is None:
        print("bench.gpu: nothing is run: numpy is not installed: python -m pip install numpy", file=sys.stderr)
        sys.exit(3)
    from bench.gpu.command import main

    sys.exit(main())
