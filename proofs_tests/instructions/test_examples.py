"""The examples with calls: products by a BLAS, and a C function of the user."""

from pathlib import Path

import numpy as np
import pytest

import atl
from atl.cli.command import FAILED
from atl.cli.main import main
from examples import calls, own_instruction
from lowering.instructions import registry


def test_packed_product_calls_for_each_panel() -> None:
    s = calls.packed_product(32)
    kernel = s.compile()
    assert "sgemm(out + 32 * jo, m, 1, A, k, 1, Bp, 1, k, n, k, min_int64(m - 32 * jo, 32), 0);" in " ".join(
        kernel.source.split()
    )
    for n, k, m in ((20, 30, 70), (40, 20, 64), (3, 5, 7), (0, 4, 9), (9, 0, 40), (9, 4, 0)):
        a = np.arange(n * k, dtype="float32").reshape(n, k) % 7
        b = np.arange(k * m, dtype="float32").reshape(k, m) % 5
        assert np.array_equal(kernel(a, b), a @ b), (n, k, m)
    assert s.done().lhs == calls.PRODUCT


@pytest.mark.long
def test_convolution_as_products() -> None:
    s = calls.convolution_as_products()
    kernel, plain = s.compile(), atl.compile(calls.CONVOLUTION)
    for h, w, c, o in ((9, 10, 8, 16), (1, 2, 3, 4), (0, 4, 3, 2), (10, 16, 0, 8)):
        x = np.arange((h + 2) * (w + 2) * c, dtype="float32").reshape(h + 2, w + 2, c) % 5
        f = np.arange(9 * c * o, dtype="float32").reshape(3, 3, c, o) % 3
        assert np.array_equal(kernel(x, f, h=h, w=w), plain(x, f, h=h, w=w)), (h, w, c, o)
    assert len(s.done().steps) <= 7


def test_own_function_is_called() -> None:
    registry.declare_instruction(own_instruction.WEIGHTED_SUMS)  # another test may have replaced it
    kernel = own_instruction.even_rows().compile()
    assert "weighted_sums(out, x, 200, 1, w, n, 100);" in kernel.source
    x = np.arange(1200, dtype="float32").reshape(12, 100) % 7
    assert np.array_equal(kernel(x, np.ones(100, "float32")), x[::2].sum(axis=1))


@pytest.mark.long
def test_command_checks_the_instructions_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_declared", {})
    text = own_instruction.WEIGHTED_SUMS.text
    (tmp_path / "sums.c").write_text(text)
    program = str(own_instruction.WEIGHTED_SUMS.program)
    declared = (
        "import atl\n"
        "strides = {{'a': 'a1 = 1 ∧ a0 >= k'}}\n"
        'program = atl.parse("""{}""")\n'
        "one = atl.instruction(source=r'{}', strides=strides, result='stored')(program)\n"
    )
    (tmp_path / "own.py").write_text(declared.format(program, tmp_path / "sums.c"), encoding="utf-8")
    assert main(["check-instruction", str(tmp_path / "own.py"), "--largest", "2"]) == 0
    assert "weighted_sums: " in (out := capsys.readouterr().out)
    assert "calls agree with the program" in out
    (tmp_path / "sums.c").write_text(text.replace("a0 + p", "a0 + p + 1"))
    assert main(["check-instruction", f"{tmp_path / 'own.py'}:weighted_sums", "--largest", "2"]) == FAILED
    assert "weighted_sums: " in capsys.readouterr().out
    assert main(["check-instruction", "sdot", "--largest", "1"]) == 0
    (tmp_path / "empty.py").write_text("")
    assert main(["check-instruction", str(tmp_path / "empty.py")]) == 2
    message = capsys.readouterr().err
    assert "declares no instruction" in message
    assert "@atl.instruction(…) or atl.declare_instruction(…)" in message
