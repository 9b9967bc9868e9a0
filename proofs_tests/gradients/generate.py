"""Random programs that have derivatives: few constructors, one floating-point type, and inputs at the leaves."""

from __future__ import annotations

from atl.core.dtypes import FLOATS
from atl.surface.values import Tensor
from proofs_tests.programs.choices import Choices, Seeded, chance, choose
from proofs_tests.programs.generate import Made, Maker, Option, case
from proofs_tests.programs.generate_index import Scope, Shape


class Differentiable(Maker):
    """Generator of terms with floating-point elements, most of them of one type."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.ring = False
        self.fuel = choices.integer(1, 9)
        self.dtype = choose(choices, FLOATS[-2:])

    def whole(self) -> Tensor:
        return self.tensor(Scope(), self.ground.shape(Scope()), self.dtype)

    def _scalar(self, scope: Scope, dtype: str) -> list[Option]:
        options = super()._scalar(scope, dtype)
        return [*options, (3, lambda: self.ground.declared((), dtype))] if chance(self.choices, 30) else options

    def _cast(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        return self._unary(scope, shape, dtype) if chance(self.choices, 60) else super()._cast(scope, shape, dtype)


def differentiable_case(seed: int, number: int) -> Made:
    """Return the case with this number in the run with this seed."""
    return case(Seeded.by(f"{seed}:{number}"), Differentiable)
