"""Drawings of small matrices with their arrays, and descriptions of formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import sparse
from atl.errors import ATLError
from proofs_tests.sparse.matrices import FORMATS, MATRICES
from sparse import description, draw, pack

MATRIX = np.array([[6, 0, 9, 8], [0, 0, 0, 0], [5, 0, 0, 7]])


def boxes(picture: sparse.MatrixDrawing) -> list[tuple[str, str]]:
    """Return the colour and the text of each box."""
    root = ElementTree.fromstring(picture.svg())
    found: list[tuple[str, str]] = []
    for part in root:
        kind = part.tag.rpartition("}")[2]
        if kind == "rect":
            found.append((part.get("fill", ""), ""))
        elif part.get("text-anchor") == "middle":
            found[-1] = (found[-1][0], part.text or "")
    return found


def test_values_and_entries_have_the_same_colour() -> None:
    for form in FORMATS.values():
        all_boxes = boxes(draw(pack(MATRIX, form)))
        values = all_boxes[-len(pack(MATRIX, form).values) :]
        where = {text: fill for fill, text in all_boxes[: MATRIX.size] if text not in ("", "0")}
        assert set(where) == {"6", "9", "8", "5", "7"}, form
        assert {text: fill for fill, text in values if text != "0"} == where, form


def test_padding_values_are_grey() -> None:
    values = boxes(draw(pack(MATRIX, sparse.HASH)))[-len(pack(MATRIX, sparse.HASH).values) :]
    assert {fill for fill, text in values if text == "0"} == {"#f2f2f2"}


@pytest.mark.parametrize("name", MATRICES)
def test_edge_case_matrices_are_drawn(name: str) -> None:
    for form in (sparse.CSR, sparse.COO, sparse.BCSR, sparse.DIA):
        picture = draw(pack(MATRICES[name](), form))
        ElementTree.fromstring(picture.svg())
        assert str(picture).splitlines()[0] == repr(form)


def test_drawing_is_written_to_a_file(tmp_path: Path) -> None:
    picture = draw(pack(MATRIX, sparse.CSR), tmp_path / "matrix.svg")
    assert (tmp_path / "matrix.svg").read_text(encoding="utf-8") == picture.svg()
    with pytest.raises(ATLError, match="cannot be written"):
        draw(pack(MATRIX, sparse.CSR), tmp_path / "nowhere" / "matrix.svg")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pack(np.ones((40, 40)), sparse.CSR), "a matrix of at most 1024 elements"),
        (pack(np.ones((2, 2, 2)), sparse.CSF), "a matrix of at most 1024 elements"),
        (np.eye(2), "is not a SparseTensor"),
    ],
    ids=["large", "a cube", "not packed"],
)
def test_undrawable_tensors_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ATLError, match=message):
        draw(value)


def test_descriptions_of_formats() -> None:
    for form in FORMATS.values():
        packed = pack(MATRIX, form)
        found = json.loads(json.dumps(description(packed)))
        assert found["format"]["name"] == repr(form)
        assert found["number_of_stored_values"] == len(packed.values)
        level, ranks = found["format"]["custom"]["level"], []
        while level["level_desc"] != "element":
            ranks.append(level["rank"])
            level = level["level"]
        assert ranks == [each.dims for each, _ in form.levels_of((3, 4))]
    assert description(pack(MATRIX, sparse.CSC))["format"]["custom"]["transpose"] == [1, 0]
    assert description(pack(MATRIX, sparse.DCSR))["data_types"] == {
        "crd_1": "int32", "pos": "int32", "crd_2": "int32", "val": "int64"
    }  # fmt: skip
