"""Engines as changes of the catalog."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes import objects as changes
from lakewarden.catalog.changes.engines import engine_changed_at, engine_id, require_active, set_engine
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.store import CatalogVersion, decode, encode
from lakewarden.errors import FailedPrecondition, InvalidArgument, NotFound
from tests.catalog.build import NOW

EVENTS = TableName("kb-prod", "events")


@pytest.fixture
def catalog() -> Catalog:
    return changes.add_namespace(changes.first_catalog(), "kb-prod", NOW)


def test_a_namespace_has_an_active_engine_and_keeps_its_id(catalog: Catalog) -> None:
    made = catalog.namespaces["kb-prod"]
    assert (made.engine.active, made.engine.settings, engine_changed_at(made)) == (True, "{}", NOW)
    off = set_engine(catalog, "kb-prod", NOW, active=False)
    on = set_engine(off, "kb-prod", NOW, active=True)
    ids = {engine_id(each.namespaces["kb-prod"]) for each in (catalog, off, on)}
    assert len(ids) == 1
    assert ids != {engine_id(changes.add_namespace(catalog, "chat", NOW).namespaces["chat"])}


def test_a_disabled_engine_is_a_failed_precondition(catalog: Catalog) -> None:
    require_active(catalog, EVENTS.namespace)
    off = set_engine(catalog, "kb-prod", NOW, active=False)
    with pytest.raises(FailedPrecondition, match='ENABLE ENGINE "kb-prod"'):
        require_active(off, EVENTS.namespace)
    require_active(set_engine(off, "kb-prod", NOW, active=True), EVENTS.namespace)


def test_the_time_of_a_change_advances_under_a_clock_that_stands(catalog: Catalog) -> None:
    off = set_engine(catalog, "kb-prod", NOW, active=False)
    on = set_engine(off, "kb-prod", NOW - timedelta(hours=1), active=True)
    times = [engine_changed_at(each.namespaces["kb-prod"]) for each in (catalog, off, on)]
    assert times == sorted(set(times))
    assert set_engine(on, "kb-prod", NOW + timedelta(hours=1), active=True) is on


def test_settings_are_kept_as_they_were_given(catalog: Catalog) -> None:
    text = '{ "x": 1, "unknown": {"y": null} }'
    changed = set_engine(catalog, "kb-prod", NOW, active=True, settings=text)
    assert changed.namespaces["kb-prod"].engine.settings == text
    off = set_engine(changed, "kb-prod", NOW, active=False)
    assert off.namespaces["kb-prod"].engine.settings == text
    for bad in ("{bad", "[1]", "", "null"):
        with pytest.raises(InvalidArgument, match="JSON object"):
            set_engine(catalog, "kb-prod", NOW, active=True, settings=bad)


def test_an_engine_of_no_namespace_is_not_found(catalog: Catalog) -> None:
    with pytest.raises(NotFound):
        set_engine(catalog, "chat", NOW, active=True)


def test_a_catalog_of_an_earlier_release_has_active_engines(catalog: Catalog) -> None:
    kept = json.loads(encode(CatalogVersion(catalog, ("a",), NOW)))
    del kept["catalog"]["namespaces"]["kb-prod"]["engine"]
    read = decode(json.dumps(kept).encode(), "it").catalog
    assert read == catalog
    off = set_engine(read, "kb-prod", NOW, active=False)
    assert decode(encode(CatalogVersion(off, ("a",), NOW)), "it").catalog == off
