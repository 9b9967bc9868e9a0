"""`python -m atl` is the command `atl`."""

import sys

from commands import main

sys.exit(main())
