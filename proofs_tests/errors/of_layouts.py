"""Errors of layouts and of sparse tensors."""

from __future__ import annotations

from typing import Final

from proofs_tests.errors.entry import Entry

OF_LAYOUTS: Final = (
    Entry("ATL651", "layouts.Layout((4, -8), (8, 1))\n", "-8", "8", "extents of at least 1"),
    Entry("ATL652", "layouts.as_lego(layouts.Layout(4, 2))\n", "2", "1", "locations from 0 to 3"),
    Entry("ATL653", "layouts.draw(layouts.Layout((n, 4), (4, 1)))\n", "(n, 4)", "(3, 4)", "give numbers for the sizes"),
    Entry("ATL654", "layouts.Layout((4, 8), (8, 1))[2]\n", "[2]", "[1]", "from 0 to 1"),
    Entry(
        "ATL655",
        "from layouts.templates import fill\nfill('{{ y }}', 'c', {'x': 4})\n",
        "{{ y }}",
        "{{ x }}",
        "one of x",
    ),
    Entry("ATL901", "sparse.CSR.with_index_dtype('int16')\n", "int16", "int32"),
    Entry("ATL902", "sparse.compress(sparse.HASH(3), np.ones((2, 5)))\n", "HASH(3)", "HASH(10)", "Hashed(10)"),
    Entry(
        "ATL903",
        "held = np.ma.masked_array(np.eye(3), np.eye(3) > 0)\nsparse.compress(sparse.CSR, held)\n",
        "CSR, held)",
        "CSR, held.filled(0))",
        ".filled(0)",
    ),
    Entry(
        "ATL904",
        "from proofs_tests.sparse.test_laws import UnshiftedCompressed\n"
        "from sparse.laws import check_level\n"
        "check_level(UnshiftedCompressed())\n",
        "check_level(UnshiftedCompressed())",
        "check_level(sparse.Compressed())",
        "MONOIDSTRUCT must hold",
        shown=(
            "from sparse.laws import check_level\n"
            "class Unshifted(sparse.Compressed):\n"
            "    def append(self, first, second):\n"
            "        made = super().append(first, second)\n"
            "        pos = np.concatenate([first.arrays['pos'], second.arrays['pos'][1:]])  # not shifted\n"
            "        return type(made)({**made.arrays, 'pos': pos}, made.extents, made.count)\n"
            "check_level(Unshifted())\n"
        ),
        cure="keep the law, as `sparse.Compressed` does",
    ),
)
