from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.connection import Location
from lakewarden.errors import InUse
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import claim


def test_a_place_has_one_owner(tmp_path: Path) -> None:
    store = open_store(Location(str(tmp_path)))
    claim(store, "one")
    claim(store, "one")
    with pytest.raises(InUse, match="belongs to warehouse one"):
        claim(store, "two")
