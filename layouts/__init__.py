"""Layouts: functions from coordinates to locations, with CuTe's algebra, proofs and pictures (ch. 6).

>>> from layouts import Layout, composition, equal, injective
>>> row_major = Layout((4, 8), (8, 1))
>>> row_major(2, 3), composition(row_major, Layout((2, 4), (1, 8)))
(19, (2,4):(8,2))
>>> injective(row_major)
Proved(layer='structure', vacuous=False)
"""

from atl.parameters import check_calls as _check_calls
from layouts.algebra.coalesce import coalesce, filter, filter_zeros  # noqa: A004 (CuTe's name)
from layouts.algebra.complement import complement, downcast, nullspace, upcast
from layouts.algebra.composition import composition
from layouts.algebra.divide import flat_divide, flatten, local_tile, logical_divide, select, tiled_divide, zipped_divide
from layouts.algebra.inverses import left_inverse, right_inverse
from layouts.algebra.predicates import PredicateTensor
from layouts.algebra.products import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tiled_product,
    zipped_product,
)
from layouts.errors import CannotTabulate, LayoutError, NoLayout, NoMode
from layouts.families import as_axe, as_function, as_layout, as_lego
from layouts.foundation.bounds import cosize, size
from layouts.foundation.box import Box
from layouts.foundation.function import Chain, Function, IndexFunction
from layouts.foundation.function import swizzle as Swizzle  # noqa: N812 (CuTe's name)
from layouts.foundation.laws import broken_laws
from layouts.foundation.layout import Layout, column_major, coordinates, make_layout, row_major
from layouts.foundation.segments import Segments
from layouts.foundation.semimodule import F2, Coordinate, E, Semimodule
from layouts.foundation.tuples import (
    common_coarsening,
    common_refinement,
    compatible,
    congruent,
    depth,
    rank,
    weakly_compatible,
    weakly_congruent,
)
from layouts.linear.banks import BankConflicts, ChosenSwizzle, bank_conflicts, conflict_free, swizzle_for
from layouts.linear.conversion import as_linear
from layouts.linear.layout import ColumnAction, LinearLayout
from layouts.linear.names import supremum
from layouts.pictures.explain import Explanation, explain
from layouts.pictures.grid import Picture, draw
from layouts.pictures.parse_function import read_function
from layouts.pictures.parse_layout import read_condition, read_layout
from layouts.pictures.query import Query, ask
from layouts.pictures.report import apply_operation, describe, explain_operation, verdict
from layouts.pictures.support_table import families_table
from layouts.proofs.coordinate_maps import coordinate_maps, integral_to_binary, natural_to_integral
from layouts.proofs.equality import equal
from layouts.proofs.image import image, inverse
from layouts.proofs.injectivity import bijective, injective
from layouts.proofs.layout_of_pairs import NoneExists
from layouts.proofs.relation import Relation
from layouts.sharding import Shards, sharding_of, shards
from layouts.storages.formats import (
    antidiagonal,
    backwards,
    blocked,
    compact_antidiagonal,
    morton,
    padded,
    sheared,
    skewed,
    swizzled,
)

__all__ = [
    "F2",
    "BankConflicts",
    "Box",
    "CannotTabulate",
    "Chain",
    "ChosenSwizzle",
    "ColumnAction",
    "Coordinate",
    "E",
    "Explanation",
    "Function",
    "IndexFunction",
    "Layout",
    "LayoutError",
    "LinearLayout",
    "NoLayout",
    "NoMode",
    "NoneExists",
    "Picture",
    "PredicateTensor",
    "Query",
    "Relation",
    "Segments",
    "Semimodule",
    "Shards",
    "Swizzle",
    "antidiagonal",
    "apply_operation",
    "as_axe",
    "as_function",
    "as_layout",
    "as_lego",
    "as_linear",
    "ask",
    "backwards",
    "bank_conflicts",
    "bijective",
    "blocked",
    "blocked_product",
    "broken_laws",
    "coalesce",
    "column_major",
    "common_coarsening",
    "common_refinement",
    "compact_antidiagonal",
    "compatible",
    "complement",
    "composition",
    "conflict_free",
    "congruent",
    "coordinate_maps",
    "coordinates",
    "cosize",
    "depth",
    "describe",
    "downcast",
    "draw",
    "equal",
    "explain",
    "explain_operation",
    "families_table",
    "filter",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "flatten",
    "image",
    "injective",
    "integral_to_binary",
    "inverse",
    "left_inverse",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_layout",
    "morton",
    "natural_to_integral",
    "nullspace",
    "padded",
    "raked_product",
    "rank",
    "read_condition",
    "read_function",
    "read_layout",
    "right_inverse",
    "row_major",
    "select",
    "sharding_of",
    "shards",
    "sheared",
    "size",
    "skewed",
    "supremum",
    "swizzle_for",
    "swizzled",
    "tiled_divide",
    "tiled_product",
    "upcast",
    "verdict",
    "weakly_compatible",
    "weakly_congruent",
    "zipped_divide",
    "zipped_product",
]

_check_calls(globals())
