"""Errors of building and running: compilers, marks, GPUs, pictures, the benchmark."""

from __future__ import annotations

from typing import Final

from proofs_tests.errors.entry import Entry

OF_BUILDING: Final = (
    Entry(
        "ATL501",
        "os.environ['CC'] = '/nowhere/cc'\nlowering.compile(atl.program('f', [x], 2 * x))\n",
        "os.environ['CC'] = '/nowhere/cc'",
        "os.environ.pop('CC', None)",
        "unset CC",
    ),
    Entry(
        "ATL502",
        "from lowering.builds import build_shared\n"
        "build_shared('int answer(void) { return forty_two; }', name='answer')\n",
        "forty_two",
        "42",
        "forty_two",
    ),
    Entry(
        "ATL503",
        "from pathlib import Path\n"
        "from PIL import Image\n"
        "from atl.cli.photograph import read_picture\n"
        "Image.new('L', (2, 2)).save('grey.png')\n"
        "read_picture(Path('gray.png'))\n",
        "gray.png",
        "grey.png",
        "a picture: PNG",
        shown=("$ atl demo --image gray.png\n"),
        cure="name an existing picture",
    ),
    Entry(
        "ATL505",
        "f = atl.program('f', [x], atl.gen(n, lambda i: 2 * x[i]))\n"
        "s = reschedule(f).mark('i', 'block.x')\n"
        "lowering.compile(s.goal)\n",
        "compile(s.goal)",
        "compile(s.goal, target='cuda')",
        'use target="cuda", which supports it',
    ),
    Entry(
        "ATL506",
        "f = atl.program('f', [A], atl.gen(m, lambda j: atl.sum(n, lambda i: A[i, j])))\n"
        "s = reschedule(f).interchange('j').mark('i', 'parallel')\n"
        "lowering.compile(s.goal)\n",
        "'parallel'",
        "None",
    ),
    Entry(
        "ATL507",
        "# Taken to be a machine with a driver, without nvcc and without a GPU.\n"
        "from unittest import mock\n"
        "from lowering.device.detection import GpuEnvironment\n"
        "kernel = lowering.compile(atl.program('f', [x], 2 * x), target='cuda')\n"
        "with mock.patch('lowering.gpu.gpu_kernel.detect_gpu', return_value=GpuEnvironment(None, '12.4', ())):\n"
        "    kernel(x=np.ones(3, np.float32))\n",
        "'cuda'",
        "'c'",
        'compile(program, target="c")',
        shown=(
            "# on a machine without nvcc and without a GPU\n"
            "kernel = lowering.compile(atl.program('f', [x], 2 * x), target='cuda')\n"
            "kernel(x=np.ones(3, np.float32))\n"
        ),
        cure="compile for the processor, replace `'cuda'` with `'c'`; or use a machine with all three",
    ),
    Entry(
        "ATL508",
        "# A stand-in for CUDA's library, whose driver is too old.\n"
        "import ctypes\n"
        "from lowering.device.runtime import Runtime\n"
        "def told(number, name, said):\n"
        "    ctypes.memmove(name, b'cudaErrorInsufficientDriver\\0', 28)\n"
        "    ctypes.memmove(said, b'the driver is older than CUDA\\0', 30)\n"
        "driver = {'too old': 35, 'newer': 0}\n"
        "Runtime({'atl_error': told, 'atl_device': lambda at: driver['too old']}).device()\n",
        "driver['too old']",
        "driver['newer']",
        "install a newer driver",
        shown=(
            "# on a machine whose driver is older than the installed CUDA\n"
            "kernel = lowering.compile(atl.program('f', [x], 2 * x), target='cuda')\n"
            "kernel(x=np.ones(3, np.float32))\n"
        ),
        cure="install a newer driver",
    ),
    Entry(
        "ATL509",
        "from lowering.device.calls import check_grids\n"
        "f = atl.program('f', [x], atl.gen(n, lambda i: 2 * x[i]))\n"
        "kernel = lowering.compile(reschedule(f).mark('i', 'block.y').goal, target='cuda')\n"
        "check_grids(kernel.kernels, {'n': 100_000}, lambda array, at: 0)  # as a call does\n",
        "block.y",
        "block.x",
        shown=(
            "f = atl.program('f', [x], atl.gen(n, lambda i: 2 * x[i]))\n"
            "kernel = lowering.compile(reschedule(f).mark('i', 'block.y').goal, target='cuda')\n"
            "kernel(x=np.ones(100_000, np.float32))\n"
        ),
        cure="replace `block.y` with `block.x`",
    ),
    Entry(
        "ATL510",
        "import sys, types\n"
        "import lowering.calls.operators as operators\n"
        "found = {'installed': object(), 'not installed': None}  # what Python says of JAX\n"
        "before, operators.find_spec = operators.find_spec, lambda name: found['not installed']\n"
        "modules, sys.modules['jax'] = dict(sys.modules), types.ModuleType('jax')\n"
        "try:\n"
        "    lowering.compile(atl.program('f', [x], 2 * x)).jax_function()\n"
        "finally:\n"
        "    operators.find_spec = before\n"
        "    sys.modules.pop('jax') if 'jax' not in modules else sys.modules.update(jax=modules['jax'])\n",
        "found['not installed']",
        "found['installed']",
        "pip install jax",
        shown=("# where JAX is not installed\nlowering.compile(atl.program('f', [x], 2 * x)).jax_function()\n"),
        cure="`pip install jax`",
    ),
    Entry(
        "ATL511",
        "# A stand-in for a kernel with gcc's OpenMP, and for a fork.\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from types import SimpleNamespace\n"
        "from lowering.calls.processes import TEAM, checked_after_fork\n"
        "OMP_NUM_THREADS = 2\n"
        "def example():\n"
        "    openmp = SimpleNamespace(omp_get_max_threads=lambda: OMP_NUM_THREADS)\n"
        "    kernel = checked_after_fork(lambda: 0, openmp, 'f')\n"
        "    kernel()\n"
        "    TEAM.fork()\n"
        "    kernel()\n"
        "with ThreadPoolExecutor(1) as thread:\n"
        "    thread.submit(example).result()\n",
        "OMP_NUM_THREADS = 2",
        "OMP_NUM_THREADS = 1",
        "set OMP_NUM_THREADS=1",
        shown=(
            "import multiprocessing\n"
            "f = reschedule(atl.program('f', [x], atl.gen(n, lambda i: 2 * x[i]))).mark('i', 'parallel').goal\n"
            "kernel = lowering.compile(f)\n"
            "kernel(np.ones(4, np.float32))\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
            "    pool.map(kernel, [np.ones(4, np.float32)])\n"
        ),
        cure="replace `'fork'` with `'spawn'`",
    ),
    Entry(
        "ATL512",
        "import signal\n"
        "from lowering.timing.child import run_in_child\n"
        "stack = 'small'  # a stand-in for a kernel whose buffers exceed the stack\n"
        "run_in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV) if stack == 'small' else None, 600)\n",
        "stack = 'small'",
        "stack = 'unlimited'",
        "ulimit -s unlimited",
        shown=(
            "# a kernel whose buffers exceed the stack\n"
            "s.autotune({'n': 1000}, schedule=in_blocks, choices={'by': [4096]})\n"
        ),
        cure="`ulimit -s unlimited`, or `s.mark(buffer, 'heap')`",
    ),
    Entry(
        "ATL513",
        "body = atl.gen(n, n, lambda i, j: atl.exp(x[i] * x[j]))\n"
        "s = reschedule(atl.program('f', [x], body))\n"
        "s.assemble(atl.CSR).compile()\n",
        "s.assemble(atl.CSR)",
        "s",
        "omit s.assemble(…)",
    ),
    Entry(
        "ATL514",
        "kernel = atl.compile(atl.program('f', [x], 1 / x))\nprint(kernel.error_bound())\n",
        "error_bound()",
        "error_bound(np.ones(4, np.float32))",
        "kernel.error_bound(…)",
    ),
    Entry(
        "ATL517",
        "text = 'f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] ⊞[i < n] 2 * x[d, i]'\n"
        "kernel = atl.compile(atl.parse(text), mesh=atl.Mesh(x=3))\n"
        "kernel(np.ones((2, 4), np.float32))\n",
        "atl.Mesh(x=3)",
        "atl.Mesh(x=2)",
    ),
    Entry(
        "ATL518",
        "text = 'f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] ⊞[i < n] x[d, i] + x[0, i]'\n"
        "s = reschedule(atl.parse(text), given=[atl.sizes('P') >= 1])\n"
        "atl.compile(s.goal, mesh=atl.Mesh(x=2))\n",
        "atl.compile",
        "s.exchange('x[0, _]', at='d')\natl.compile",
        's.exchange("x", at=…)',
    ),
    Entry(
        "ATL520",
        "from examples.systolic import product\n"
        "s = product().mark('acc', 'scratchpad')\n"
        "s.compile(target='systolic')\n",
        "'scratchpad'",
        "'accumulator'",
        "out in the accumulator",
    ),
    Entry(
        "ATL519",
        "# Two ranks that run different programs.\n"
        "from lowering.ranks.engine import Round, simulate\n"
        "def rank(*exchanges):\n"
        "    for exchange in exchanges:\n"
        "        yield Round(exchange, {}, {}, np.dtype(np.float32))\n"
        "simulate([rank('shift halo'), rank('all-reduce total')])\n",
        "rank('all-reduce total')",
        "rank('shift halo')",
        "the same exchanges in the same order on all ranks",
        shown="$ mpiexec -n 1 python one.py : -n 1 python another.py\n",
        cure="run the same program on all ranks",
    ),
    Entry(
        "ATL601",
        "from proofs_tests.nests.test_interpreter import AT_I, OUT, X, cell, every, nest\n"
        "from lowering.nest.loopnest import Assign, Load\n"
        "from lowering.nest.interpreter import run\n"
        "copied = nest(every(Assign(cell(OUT, AT_I + 1), Load(cell(X, AT_I)))))\n"
        "run(copied, {'n': 3}, {'x': np.ones(3, np.float32)})\n",
        "AT_I + 1",
        "AT_I",
        "out of bounds",
        shown=(
            "from lowering.nest.interpreter import run\n"
            "# of a loop nest, built by hand, that stores x[i] to out[i + 1]\n"
            "run(copied, {'n': 3}, {'x': np.ones(3, np.float32)})\n"
        ),
        cure="store to out[i]",
    ),
    Entry(
        "ATL801",
        "from bench.command import _sized\nlist(_sized('produkt', quick=True))\n",
        "produkt",
        "product",
        "did you mean product",
        shown=("$ atl bench produkt\n"),
        cure="`atl bench product`",
    ),
    Entry(
        "ATL802",
        "from bench.command import _sized\nlist(_sized('product@0', quick=True))\n",
        "product@0",
        "product@512",
        shown=("$ atl bench product@0\n"),
        cure="`atl bench product@512`",
    ),
    Entry(
        "ATL803",
        "import bench.report\n"
        "from pathlib import Path\n"
        "found = {'installed': object(), 'not installed': None}  # what Python says of matplotlib\n"
        "before, bench.report.find_spec = bench.report.find_spec, lambda name: found['not installed']\n"
        "try:\n"
        "    bench.report.need_matplotlib(Path('speed.svg'))\n"
        "finally:\n"
        "    bench.report.find_spec = before\n",
        "found['not installed']",
        "found['installed']",
        "pip install",
        shown=("$ atl bench --plot speed.svg  # where matplotlib is not installed\n"),
        cure="`pip install '.[bench]'` in the checkout",
    ),
    Entry(
        "ATL804",
        "# A stand-in for the process that measures: it exits, or reports a result.\n"
        "import json, sys\n"
        "from dataclasses import asdict\n"
        "from pathlib import Path\n"
        "from unittest import mock\n"
        "from bench.command import in_own_process\n"
        "from bench.outcome import Case, Outcome\n"
        "case = Case('addition', 8)\n"
        "said = json.dumps({'outcome': asdict(Outcome(case, '', '', None, (), (), (), False))})\n"
        "Path('measures').write_text('#!/bin/sh\\n' + 'exit 3')\n"
        "Path('measures').chmod(0o755)\n"
        "with mock.patch.object(sys, 'executable', str(Path('measures').absolute())):\n"
        "    in_own_process(case, lambda said: None)\n",
        "'exit 3'",
        "f\"echo '{said}'\"",
        "a process that ends with a result",
        shown=("$ atl bench addition@8\n"),
        cure="read the output of the process, for instance that memory was exhausted, and measure again",
    ),
    Entry(
        "ATL805",
        "from pathlib import Path\nfrom bench.report import need_writable\nneed_writable(Path('none/speed.json'))\n",
        "none/",
        "",
        "in an existing directory",
        shown=("$ atl bench --json none/speed.json\n"),
        cure="name a file in an existing folder",
    ),
    Entry(
        "ATL515",
        "from lowering.validation.source import read_source\nread_source('#define TWICE(x) (x + x)')\n",
        "#define TWICE(x) (x + x)",
        "int twice(int x) { return x + x; }",
        advice="test this kernel by running it",
    ),
    Entry(
        "ATL516",
        "# A text that is changed by hand.\n"
        "from dataclasses import replace\n"
        "from lowering.kernel_text import interface\n"
        "from lowering.validation.validate import validate\n"
        "kernel = lowering.compile(atl.program('f', [x], 2 * x))\n"
        "of = interface(kernel.program, kernel.nest, kernel.source, 'f')\n"
        "validate(replace(of, text=of.text.replace('2.0f', '3.0f')))\n",
        "'3.0f'",
        "'2.0f'",
        "please report this",
    ),
)
