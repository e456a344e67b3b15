"""A catalog has the lowest format that holds it: a release that would drop what it does not know refuses it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog import store
from lakewarden.catalog.store import CatalogVersion, decode, encode
from lakewarden.errors import Corrupt
from tests.fixtures.lakes import lake_fixture

_FIRST = {
    "CatalogVersion": "catalog writes at",
    "Catalog": "version namespaces storages tables views users leases",
    "Namespace": "name created_at description",
    "Storage": "id type base user_template shared_template folds_case name description created_at connection identity",
    "Connection": "endpoint region path_style credentials",
    "Table": "id name type options schemas log_id created_at dropping move",
    "TableOptions": "storage_id flush_policy compression target_file_size retention_hours access_level ttl_seconds"
    " eviction_strategy max_stream_size use_user_storage",
    "FlushPolicy": "rows interval",
    "Move": "source target phase",
    "TableSchema": "version columns primary_key append_only",
    "SchemaColumn": "id name type nullable default null_before initial",
    "View": "name text created_at",
    "User": "user_id role auth_type created_at updated_at password_hash auth_data email storage_mode storage_id deleted_at",
    "Lease": "name owner token seconds beat",
}
"""The fields that releases with format 1 know."""

_NEW = {"DynamicOptions", "Engine", "Pipeline", "IngestRule"}
"""Classes that only fields of later formats hold."""

_MADE = {
    "CREATE TABLE n.t (id INT PRIMARY KEY, k TEXT) PARTITION BY (k)": 2,
    "CREATE TABLE n.t (id INT)": 2,
    "CREATE TABLE n.t (id INT PRIMARY KEY) WITH (ON_DUPLICATE = 'replace')": 2,
    "CREATE DYNAMIC TABLE n.t (id INT PRIMARY KEY)": 2,
    "CREATE DYNAMIC TABLE n.t (id INT) WITH ('log.changelog-mode' = 'all')": 2,
    "CREATE DYNAMIC TABLE n.t (id INT PRIMARY KEY) WITH ('log.changelog-mode' = 'all')": 3,
    "DISABLE ENGINE n": 2,
    "CREATE TABLE n.t (id INT PRIMARY KEY) WITH (COMPACTION_RATIO = 2)": 3,
    "CREATE SHARED TABLE n.t FROM TEMPLATE csv": 2,
}
"""Statements, and the format that what they make needs."""


lake = lake_fixture(sql="CREATE NAMESPACE n")


def text_of(lake: Lakehouse) -> bytes:
    return encode(CatalogVersion(lake.warehouse.catalog.read(), (), None))


def test_what_older_releases_hold_stays_in_their_format(lake: Lakehouse) -> None:
    lake.create_table("n.s", type="SHARED", columns=[Column("id", "INT")], primary_key=["id"])
    lake.create_table("n.u", type="USER", columns=[Column("id", "INT")], primary_key=["id"])
    lake.create_table("n.events", type="STREAM", columns=[Column("id", "INT")], options={"TTL_SECONDS": "60"})
    assert json.loads(text_of(lake))["format"] == 1


@pytest.mark.parametrize(("statement", "needed"), _MADE.items())
def test_what_they_would_drop_is_refused_by_them(
    lake: Lakehouse, statement: str, needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(statement)
    text = text_of(lake)
    assert decode(text, "the catalog").catalog == lake.warehouse.catalog.read()
    monkeypatch.setattr(store, "NEWEST", needed - 1)
    with pytest.raises(Corrupt, match=f"has format {needed}; this version of Lakewarden reads formats up to {needed - 1}"):
        decode(text, "the catalog")


def test_a_later_format_is_refused(lake: Lakehouse) -> None:
    body = json.loads(text_of(lake)) | {"format": store.NEWEST + 1}
    with pytest.raises(Corrupt, match="has format"):
        decode(json.dumps(body).encode(), "the catalog")


def test_every_field_has_a_format() -> None:
    """A field that is added goes into the newest format, or into a new one where a release has that."""
    known = {name: set(text.split()) for name, text in _FIRST.items()}
    for kind in _classes(CatalogVersion):
        later = set(store._LATER.get(kind, ()))
        assert {each.name for each in fields(kind)} == known.get(kind.__name__, set()) | later or kind.__name__ in _NEW, kind


def _classes(kind: Any, found: set[type] | None = None) -> set[type]:
    """The dataclasses that a value of this type can hold."""
    found = set() if found is None else found
    if is_dataclass(kind) and isinstance(kind, type):
        if kind not in found and kind.__name__ not in ("TableName", "ColumnType"):
            found.add(kind)
            for hint in get_type_hints(kind).values():
                _classes(hint, found)
    else:
        for argument in get_args(kind):
            _classes(argument, found)
    return found
