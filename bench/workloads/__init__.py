"""The workloads. Each is a table with a line for each of our schedules and each baseline."""

from __future__ import annotations

from typing import Final

from bench.comparison import Workload
from bench.workloads import images, layers, networks, products, stencils

WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload
    for module in (stencils, products, networks, layers, images)
    for workload in module.WORKLOADS
}
