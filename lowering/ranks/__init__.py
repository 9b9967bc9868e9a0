"""Distributed programs: the ranks of a mesh each run one program, and exchange parts of tensors.

`forming` turns a term with loops marked `device.x|y|z` into the steps of one rank (`steps`); `engine` runs the ranks,
all in this process or one for each MPI process; `traffic` states the words and messages of each rank as formulas.
"""

from atl.parameters import check_calls as _check_calls
from lowering.ranks.kernel import DistributedKernel, compile_for_mesh
from lowering.ranks.mesh import Mesh
from lowering.ranks.traffic import Traffic, traffic_of

__all__ = ["DistributedKernel", "Mesh", "Traffic", "compile_for_mesh", "traffic_of"]
_check_calls(globals())
