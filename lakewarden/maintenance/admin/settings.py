"""Lists and changes the settings of the whole warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewarden.catalog.access import Principal
from lakewarden.catalog.kept_settings import KEPT, change_settings
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class WarehouseSetting:
    """One setting, by which all processes go. `bounds` is text like `≥ 1, ≤ 10`."""

    key: str
    value: int | float
    default: int | float
    bounds: str
    description: str


def settings_of(warehouse: Warehouse, catalog: Catalog | None = None) -> list[WarehouseSetting]:
    """All of them, as they are now, or were in that version of the catalog."""
    kept = warehouse.kept_settings(catalog or warehouse.catalog.read())
    return [
        WarehouseSetting(key, kept.value(key), _number(one.default), one.bounds, one.description) for key, one in KEPT.items()
    ]


def alter_warehouse(
    warehouse: Warehouse, changes: Mapping[str, str], principal: Principal, audit: AuditLog
) -> list[WarehouseSetting]:
    """Changes settings, all or none, and notes who did; returns all as they are then. The value `default` sets one back.

    Raises:
        InvalidArgument: a key does not exist, or a value is not one of its setting; nothing was changed.
    """
    changed = warehouse.catalog.change(lambda catalog: change_settings(catalog, changes, warehouse.settings))
    said = ", ".join(f"{key} = {value}" for key, value in changes.items())
    audit.note(principal, "ALTER_WAREHOUSE", f"warehouse:{warehouse.id}", said)
    return settings_of(warehouse, changed)


def _number(value: object) -> int | float:
    assert isinstance(value, (int, float)), "those of the warehouse are numbers"
    return value
