"""The workloads. Each is a table with a line for each of our schedules and each baseline."""

from __future__ import annotations

from typing import Final

from bench.comparison import Workload
from bench.workloads import gradients, graphs, images, layers, networks, products, recurrences, stencils

WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload
    for module in (stencils, products, networks, layers, images, graphs, recurrences, gradients)
    for workload in module.WORKLOADS
}
