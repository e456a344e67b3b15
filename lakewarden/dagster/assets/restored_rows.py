"""A sample of the rows that a restore brings back and takes away, for its preview."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from sqlglot import exp

from lakewarden.base.scope import Scope
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.errors import LakewardenError
from lakewarden.sql.results import ResultRows

SHOWN = 10
_WIDEST = 80
"""Characters of a value."""


def rows_of(lake: Lakehouse, reports: Sequence[ScopeReport]) -> dict[str, dg.MetadataValue]:
    """Up to ten rows as a table, of the one scope that is planned; none where the settings show none.

    A row that changes both goes and comes. Where rows cannot be compared, or may not be read, the reason stands there.
    """
    planned = [report for report in reports if report.outcome == "planned"]
    shown = min(SHOWN, lake.warehouse.settings.maintenance.preview_rows)
    if len(planned) != 1 or not shown:
        return {}
    try:
        return {"rows": table_value(_sample(lake, planned[0], shown))}
    except LakewardenError as error:
        return {"rows": dg.MetadataValue.text(f"not shown: {error.code}: {error.message}")}


def _sample(lake: Lakehouse, report: ScopeReport, shown: int) -> list[dict[str, str]]:
    now, then = _table(report), _table(report)
    version = exp.Literal.number(int(report.parameters["version"]))
    then.set("version", exp.Version(this="VERSION", kind="AS OF", expression=version))
    goes, comes = (_without(lake, report.scope, left, right, shown) for left, right in ((now, then), (then, now)))
    half = shown // 2
    return [
        {"": change, **row}
        for change, rows in (("goes", goes[: max(half, shown - len(comes))]), ("comes", comes[: max(half, shown - len(goes))]))
        for row in rows
    ]


def _table(report: ScopeReport) -> exp.Table:
    return exp.table_(report.scope.table.name, report.scope.table.namespace, quoted=True)


def _without(lake: Lakehouse, scope: Scope, left: exp.Table, right: exp.Table, shown: int) -> list[dict[str, str]]:
    """Rows of the one that are not in the other, as the scope's own user may read them."""
    text = exp.select("*").from_(left).except_(exp.select("*").from_(right)).limit(shown).sql()
    user, role = ("root", "system") if scope.user is None else (scope.user, "user")
    (found,) = lake.sql(text, user=user, role=role, freshness="strong")
    assert isinstance(found, ResultRows)
    return [{name: _short(value) for name, value in row.items()} for row in found.to_pylist()]


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
