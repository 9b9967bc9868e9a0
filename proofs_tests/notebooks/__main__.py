"""`python -m proofs_tests.notebooks`: executes the notebooks of the documents, and compares; `--write` stores them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from proofs_tests.notebooks.executing import compared, write
from proofs_tests.notebooks.stored import paths


def main() -> int:
    """0 where all notebooks show what is stored."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.notebooks", description=__doc__)
    parser.add_argument("notebook", nargs="*", type=Path, help="some of docs/notebooks; all, where none is named")
    parser.add_argument("--write", action="store_true", help="store what they show now, in place of what is stored")
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
