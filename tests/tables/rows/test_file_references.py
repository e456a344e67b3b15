"""References to files: which texts can be one."""

from __future__ import annotations

import json

import pytest

from lakewarden.errors import ConstraintViolation
from lakewarden.tables.rows.files import FileRef

_REF = FileRef("128869599430169857", "f0001", "My Cat.PNG", 6, "image/png", "0" * 64)


@pytest.mark.parametrize("size", [-1, 1 << 63, 6.0, True, "6", None])
def test_a_size_is_a_whole_number_that_a_file_can_have(size: object) -> None:
    with pytest.raises(ConstraintViolation, match="size"):
        FileRef.parse(json.dumps({**vars(_REF), "size": size}))


def test_a_reference_comes_back_as_it_is() -> None:
    for size in (0, 6, (1 << 63) - 1):
        text = FileRef(_REF.id, _REF.sub, "Größe \U0001f408.png", size, _REF.mime, _REF.sha256).text
        assert FileRef.parse(text).text == text
