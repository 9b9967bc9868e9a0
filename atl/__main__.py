"""`python -m atl` is the command `atl`."""

import sys

from atl.cli import main

sys.exit(main())
