"""What is here instead of what the seed says, where the lines have no test of it (`lines.DIFFERENCES`)."""

from __future__ import annotations

import re
from pathlib import Path

from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.serve.http.k3_calls import CALLS, snake
from tests.client.k3.lines import DIFFERENCES
from tests.client.k3.tables import BUCKET, event, make


def root(lake: Lakehouse) -> Path:
    return Path(lake.warehouse.uri)


def test_each_difference_has_a_test() -> None:
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [one.test for one in DIFFERENCES if f"def {one.test}(" not in texts] == []
    assert all(one.says and one.here and one.why for one in DIFFERENCES)


def test_the_calls_are_those_of_http_and_python(k3: K3) -> None:
    assert all(callable(getattr(k3, snake(call))) for call in CALLS)


def test_a_table_lies_by_its_storages_template(k3: K3, lake: Lakehouse) -> None:
    make(k3, "placed")
    assert DeltaTable(str(root(lake) / "data" / BUCKET / "placed")).version() == 0


def test_the_log_is_of_objects_in_the_state(k3: K3, lake: Lakehouse) -> None:
    make(k3, "logged")
    k3.insert(BUCKET, "logged", [event(1)])
    log_id = lake.table(f"{BUCKET}.logged").table.log_id
    assert [*(root(lake) / "_lakewarden" / "log" / log_id / "segments").iterdir()]


def test_files_have_names_of_their_own(k3: K3, lake: Lakehouse) -> None:
    make(k3, "named", parted=True)
    for number in range(2):
        k3.insert(BUCKET, "named", [event(number)])
        k3.compact(BUCKET, "named")
    files = DeltaTable(str(root(lake) / "data" / BUCKET / "named"))
    assert all(re.fullmatch(r"event_type=click/batch-\d+-[0-9a-f-]+\.parquet", name) for name in names(files))
    k3.optimize(BUCKET, "named")
    (packed,) = names(DeltaTable(str(root(lake) / "data" / BUCKET / "named")))
    assert re.fullmatch(r"event_type=click/compact-[0-9a-f-]+\.parquet", packed)


def names(table: DeltaTable) -> list[str]:
    return [uri.rpartition("/named/")[2] for uri in table.file_uris()]


def test_a_fence_stays_behind_a_drop(k3: K3, lake: Lakehouse) -> None:
    make(k3, "fenced")
    k3.insert(BUCKET, "fenced", [event(1)])
    k3.compact(BUCKET, "fenced")
    k3.delete_table(BUCKET, "fenced")
    place = root(lake) / "data" / BUCKET / "fenced"
    assert {path.parent.name for path in place.rglob("*") if path.is_file()} == {"_delta_log"}
    assert DeltaTable(str(place)).to_pyarrow_table().num_rows == 0
