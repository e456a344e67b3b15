"""K3.B: a bucket and its engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.client.k3.messages import QueryAnswer
from lakewarden.errors import FailedPrecondition, InvalidArgument, NotFound
from tests.client.k3.tables import BUCKET, event


def test_k3_009_a_new_bucket_has_an_engine(k3: K3) -> None:
    made = k3.create_bucket("new-bucket")
    assert k3.get_engine("new-bucket") == made
    assert k3.create_bucket("new-bucket") == made, "making it again changes nothing"


def test_k3_010_an_engine_in_full(k3: K3) -> None:
    engine: dict[str, object] = {**k3.get_engine(BUCKET)}
    assert str(engine.pop("engineId")).startswith("eng_")
    times = [str(engine.pop("createdAt")), str(engine.pop("updatedAt"))]
    assert all(time.isdecimal() and len(time) == 13 for time in times)
    count = engine.pop("tableCount")
    assert isinstance(count, int)
    assert engine == {"bucket": BUCKET, "status": "ENGINE_STATUS_ACTIVE", "settings": "{}"}


def test_k3_011_enabling_it_again_keeps_the_engine(k3: K3, lake: Lakehouse) -> None:
    before = k3.get_engine(BUCKET)
    assert k3.enable_engine(BUCKET) == before
    (rows,) = lake.sql("SHOW ENGINES")
    ids = [row["engine_id"] for row in rows.to_pylist() if row["namespace_id"] == BUCKET]  # type: ignore[union-attr]
    assert ids == [before["engineId"]]


def test_k3_012_a_bucket_is_named_and_never_an_engine(k3: K3) -> None:
    for call in (k3.get_engine, k3.enable_engine, k3.disable_engine, k3.list_tables):
        with pytest.raises(NotFound, match="'nowhere'"):
            call("nowhere")


def test_k3_013_a_new_engine_is_active(k3: K3) -> None:
    assert k3.create_bucket("active-one")["status"] == "ENGINE_STATUS_ACTIVE"


def test_k3_014_only_its_two_calls_switch_it(lake: Lakehouse) -> None:
    k3 = lake.k3
    k3.create_bucket("switched")
    k3.create_table("switched", "t", [{"name": "id", "type": "COLUMN_TYPE_LONG"}], merge_keys=["id"])
    active = k3.get_engine("switched")
    off = k3.disable_engine("switched")
    assert off["status"] == "ENGINE_STATUS_DISABLED"
    assert int(str(off["updatedAt"])) > int(str(active["updatedAt"]))
    lake.flush()
    lake.vacuum()
    with Lakehouse.open(lake.warehouse.uri) as again:
        assert again.k3.get_engine("switched") == off
    on = k3.enable_engine("switched")
    assert (on["status"], int(str(on["updatedAt"])) > int(str(off["updatedAt"]))) == ("ENGINE_STATUS_ACTIVE", True)


CALLS: dict[str, Callable[[K3, str], object]] = {
    "insert": lambda k3, table: k3.insert("off", table, [event(2)]),
    "merge": lambda k3, table: k3.merge("off", table, [event(2)]),
    "update": lambda k3, table: k3.update("off", table, {"event_type": "x"}, "id = 1"),
    "delete": lambda k3, table: k3.delete_rows("off", table, "id = 1"),
    "query": lambda k3, table: k3.execute("off", f"SELECT * FROM {table}"),
    "create": lambda k3, _: k3.create_table("off", "more", [{"name": "id", "type": "COLUMN_TYPE_LONG"}]),
    "optimize": lambda k3, table: k3.optimize("off", table),
    "vacuum": lambda k3, table: k3.vacuum("off", table),
    "compact": lambda k3, table: k3.compact("off", table),
    "restore": lambda k3, table: k3.restore("off", table, 0),
    "history": lambda k3, table: k3.history("off", table),
}


def test_k3_015_a_disabled_engine_refuses_calls_of_tables_and_deletes_nothing(k3: K3) -> None:
    k3.create_bucket("off")
    k3.create_table("off", "t", [{"name": "id", "type": "COLUMN_TYPE_LONG"}], merge_keys=["id"])
    k3.insert("off", "t", [{"id": 1}])
    k3.disable_engine("off")
    for call in CALLS.values():
        with pytest.raises(FailedPrecondition, match="'off' is disabled"):
            call(k3, "t")
    with pytest.raises(FailedPrecondition, match="'off' is disabled"):
        k3.execute("off", "SELECT 1")
    assert [table["name"] for table in k3.list_tables("off")] == ["t"]
    k3.enable_engine("off")
    read = k3.execute("off", "SELECT id FROM t", freshness="FRESHNESS_STRONG")
    assert cast("QueryAnswer", read)["rows"] == [{"id": 1}]
    k3.disable_engine("off")
    k3.delete_table("off", "t")


def test_k3_016_settings_are_the_text_of_an_object_kept_as_it_is(k3: K3) -> None:
    assert k3.create_bucket("set-one")["settings"] == "{}"
    text = '{"x":1, "unknown" : {}}'
    assert k3.enable_engine("set-one", settings=text)["settings"] == text
    assert k3.disable_engine("set-one")["settings"] == text
    for bad in ("{bad", "[1]"):
        with pytest.raises(InvalidArgument, match="JSON object"):
            k3.enable_engine("set-one", settings=bad)


def test_k3_017_the_number_of_tables_follows_them(k3: K3) -> None:
    k3.create_bucket("counted")
    for name in ("a", "b", "c", "d"):
        k3.create_table("counted", name, [{"name": "id", "type": "COLUMN_TYPE_LONG"}])
    assert k3.get_engine("counted")["tableCount"] == 4
    k3.delete_table("counted", "b")
    assert k3.get_engine("counted")["tableCount"] == 3
    k3.create_table_pipeline("counted", "of_files", "csv")
    assert k3.get_engine("counted")["tableCount"] == len(k3.list_tables("counted")) == 5, "its rejects are a table, too"
