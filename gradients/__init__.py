"""Derivatives of programs: tangents by definition, gradients by derivation.

>>> import atl
>>> n = atl.sizes("n")
>>> x = atl.tensor("x", n)
>>> energy = atl.program("energy", [x], atl.sum(n, lambda i: x[i] * x[i]))
>>> atl.gradient(energy, ["x"])
energy_gradient (x : float32[n], dout : float32) : float32[n] :=
  ⊞[i < n] let v := dout * x[i] in v + v
"""

from atl.parameters import check_calls as _check_calls
from gradients.reverse_mode import Gradient, gradient
from gradients.tangents import tangent
from gradients.training import Differentiable, differentiable

__all__ = ["Differentiable", "Gradient", "differentiable", "gradient", "tangent"]

_check_calls(globals())
