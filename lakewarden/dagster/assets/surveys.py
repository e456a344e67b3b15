"""Places with Delta tables that others wrote, as assets: each run looks at one and keeps what it found, and its check fails
where a table is damaged.

What an event shows comes from what the warehouse keeps, where users in paths stand by keyed hash: Dagster keeps it for long.

No `from __future__ import annotations` where Dagster reads a signature.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import dagster as dg

from lakewarden.base.quantities import in_units
from lakewarden.catalog.state.fleet_days import SurveySums, WorstTable
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import Metadata, markdown_line, no_markup
from lakewarden.dagster.lakehouse import LAKE, lake_of
from lakewarden.dagster.mount import SURVEY, Mount
from lakewarden.maintenance.survey.next_look import SurveyRound, survey_and_keep
from lakewarden.maintenance.survey.verdict import SurveyOptions
from lakewarden.storage.location import canonical
from lakewarden.storage.meter import dollars, metered

NOTHING_DAMAGED = "nothing_damaged"

_DETAIL = 160
_NAME = 60
_DIGITS = 6
_RETRIES = dg.RetryPolicy(max_retries=2, delay=60, backoff=dg.Backoff.EXPONENTIAL)
"""Of stores that are away for a while."""


def build_survey_assets(mount: Mount, places: Sequence[str]) -> list[dg.AssetsDefinition]:
    """An asset for each place.

    Raises:
        InvalidArgument: a URI names no place, or contains a credential.
    """
    uris = list(dict.fromkeys(map(canonical, places)))
    names = Counter(map(_spelled, uris))
    return [_of_place(mount, uri, _spelled(uri) if names[_spelled(uri)] == 1 else _distinct(uri)) for uri in uris]


def _spelled(uri: str) -> str:
    """The place as a name of Dagster's."""
    return re.sub(r"[^A-Za-z0-9]+", "_", uri.partition("://")[2] or uri).strip("_")[-_NAME:] or "root"


def _distinct(uri: str) -> str:
    """The same where another place has it, too."""
    return f"{_spelled(uri)}_{blake2b(uri.encode()).hexdigest()[:_DIGITS]}"


def _of_place(mount: Mount, uri: str, name: str) -> dg.AssetsDefinition:
    key = mount.survey_key(name)

    @dg.asset(
        key=key,
        description=f"Delta tables at {uri}, whoever wrote them. A run lists the place, looks at what changed, and writes nothing"
        " there.",
        group_name=mount.group or "_".join([*mount.key_prefix, f"lakewarden_{SURVEY}s"]),
        owners=mount.owners,
        metadata={"dagster/uri": uri},
        kinds={"deltalake"},
        check_specs=[dg.AssetCheckSpec(NOTHING_DAMAGED, asset=key, description="No table is damaged, and each can be read.")],
        required_resource_keys={mount.named(LAKE)},
        pool=mount.pools.checks,
        retry_policy=_RETRIES,
    )
    def survey(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        yield _looked(lake_of(context, mount), uri)

    return survey


def _looked(lake: Lakehouse, uri: str) -> dg.MaterializeResult[None]:
    """Looks at a place, and keeps what was found.

    Raises:
        LakewardenError: it can't be listed.
    """
    warehouse = lake.warehouse
    catalog = warehouse.catalog.read()
    prices = warehouse.kept_settings(catalog).prices
    with metered() as spent:
        found, keep_all = survey_and_keep(warehouse, [catalog.location_of(uri)], SurveyOptions(prices))
    (sums,) = keep_all()
    if found.survey.unlisted:
        raise found.survey.unlisted[0].error
    sent = spent.total()
    requests = sum(count for kind, count in sent.items() if kind.isupper())
    cost = {"cost/requests": requests, "cost/dollars": dollars(sent, prices) if "://" in canonical(uri) else 0.0}
    return dg.MaterializeResult(metadata={**_worst(sums), **_numbers(sums, found), **cost}, check_results=[_check(sums)])


def _check(sums: SurveySums) -> dg.AssetCheckResult:
    bad = sums.count("damaged") + sums.count("unreadable")
    return dg.AssetCheckResult(
        check_name=NOTHING_DAMAGED,
        passed=not bad,
        description=f"{sums.count('damaged'):,} damaged, {sums.count('unreadable'):,} unreadable of {sums.total:,} tables",
        metadata={"tables": bad, **_worst(sums)},
    )


def _numbers(sums: SurveySums, found: SurveyRound) -> Metadata:
    """The same keys on every event: Dagster plots them."""
    changes = Counter(one.change for one in found.survey.tables)
    return {
        "size": in_units(sums.bytes),
        "tables": sums.total,
        **{f"tables/{verdict}": sums.count(verdict) for verdict in ("damaged", "unreadable", "catalog", "sound")},
        **{f"since_last_look/{change}": changes[change] for change in ("new", "changed", "gone")},
        "delta/num_files": sums.files,
        "delta/bytes": sums.bytes,
        "small_files": sums.small_files,
        "dead_bytes": sums.dead_bytes,
        "unnamed_files": sums.unnamed_files,
    }


def _worst(sums: SurveySums) -> Metadata:
    """A line a table in Markdown; no cell of it is markup."""
    lines = [_line(verdict, one) for verdict in ("damaged", "unreadable") for one in sums.worst.get(verdict, ())]
    head = ["| table | verdict | damage | |", "|---|---|---|---|"]
    return {"worst": dg.MetadataValue.md("\n".join([*head, *lines]))} if lines else {}


def _line(verdict: str, one: WorstTable) -> str:
    kinds = ", ".join(kind if count == 1 else f"{kind} ×{count:,}" for kind, count in one.damage.items())
    return markdown_line(no_markup(one.path, _DETAIL), verdict, kinds, no_markup(one.detail, _DETAIL))
