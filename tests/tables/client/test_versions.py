"""Versions of the past through the Python client: whose rows they are, and who may read them."""

from __future__ import annotations

from datetime import datetime

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.errors import InvalidArgument, NotFound, PermissionDenied, Unsupported
from tests.fixtures.lakes import NOTES, lake_fixture, make_notes, notes, scope_path

lake = lake_fixture(make_notes)


def _committed(lake: Lakehouse, user: str, version: int) -> datetime:
    return lake.table(NOTES).history(user=user, before_version=version + 1)[0].timestamp


def test_a_version_is_a_users_own_and_its_columns_are_those_of_delta(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "ann's"}), user="ann")
    table.write(notes({1: "bob's", 2: "bob's"}), user="bob")
    lake.flush(NOTES)
    first = _committed(lake, "ann", 0)
    lake.sql(f"ALTER TABLE {NOTES} RENAME COLUMN text TO words; ALTER TABLE {NOTES} ADD COLUMN n INT NOT NULL DEFAULT 7")
    table = lake.table(NOTES)
    table.write([{"id": 1, "words": "new", "n": 1}], user="ann")
    lake.flush(NOTES)
    table.write([{"id": 3, "words": "pending", "n": 1}], user="ann")
    for found in (table.read(user="ann", version=0), table.read(user="ann", timestamp=first, freshness="strong")):
        assert found.to_pylist() == [{"id": 1, "text": "ann's"}]
    assert table.read(user="ann", version=1).to_pylist() == [{"id": 1, "words": "new", "n": 1}]
    assert table.read(user="bob", version=0).num_rows == 2
    assert table.read(user="bob", timestamp=_committed(lake, "ann", 1)).num_rows == 2  # bob's newest is older
    for version in (0, 1):
        there = DeltaTable(str(scope_path(lake, "ann")), version=version).to_pyarrow_table()
        assert table.read(user="ann", version=version).schema.names == [name for name in there.column_names if name != "_seq"]
    with pytest.raises(NotFound, match=r"chat.notes\[bob\]: there is no version 1; versions 0 to 0 still work"):
        table.read(user="bob", version=1)
    with pytest.raises(InvalidArgument, match="one of the two"):
        table.read(user="ann", version=0, timestamp=first)


@pytest.mark.slow
def test_after_a_restore_and_an_erasure(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    for text in ("first", "second"):
        table.write(notes({1: text}), user="ann")
        lake.flush(NOTES)
    lake.restore(NOTES, user="ann", version=0, dry_run=False)
    assert [table.read(user="ann", version=version)["text"][0].as_py() for version in range(3)] == ["first", "second", "first"]
    lake.erase("ann")
    for version in range(3):
        with pytest.raises(NotFound, match="versions 3 to 3 still work"):
            table.read(user="ann", version=version)
    assert table.read(user="ann", version=3).num_rows == 0


def test_a_session_reads_versions_as_it_reads_the_table(lake: Lakehouse) -> None:
    columns = [Column("id", "BIGINT")]
    secret = lake.create_table("chat.secret", type="SHARED", columns=columns, primary_key=["id"], options={"ACCESS_LEVEL": "DBA"})
    secret.write([{"id": 1}])
    lake.table(NOTES).write(notes({1: "ann's"}), user="ann")
    lake.flush("chat.secret")
    lake.flush(NOTES)
    ann = lake.session(user="ann", role="user")
    assert ann.table(NOTES).read(version=0).num_rows == 1
    assert ann.table(NOTES).read(timestamp=_committed(lake, "ann", 0).isoformat()).num_rows == 1
    with pytest.raises(PermissionDenied):
        ann.table("chat.secret").read(version=0)
    with pytest.raises(NotFound):
        lake.session(user="bob", role="user").table(NOTES).read(version=0)


def test_a_stream_has_no_versions(lake: Lakehouse) -> None:
    stream = lake.create_table("chat.events", type="STREAM", columns=[Column("id", "BIGINT")], options={"TTL_SECONDS": "60"})
    with pytest.raises(Unsupported, match="STREAM table, which has no versions"):
        stream.read(user="ann", version=0)
