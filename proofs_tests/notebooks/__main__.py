"""Execute the documents' notebooks and compare: `python -m proofs_tests.notebooks`; `--write` stores the outputs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from proofs_tests.notebooks.executing import compared, write
from proofs_tests.notebooks.stored import paths


def main() -> int:
    """Return 0 if all notebooks show the stored outputs."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.notebooks", description=__doc__)
    parser.add_argument("notebook", nargs="*", type=Path, help="files in docs/notebooks (default: all)")
    parser.add_argument("--write", action="store_true", help="store the current outputs")
    given = parser.parse_args()
    faults = 0
    for path in given.notebook or paths():
        if given.write:
            write(path)
            print(f"{path.name}: written")
            continue
        differ = compared(path)
        faults += len(differ)
        print("\n".join([f"{path.name}: {'as stored' if not differ else ''}", *differ]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
