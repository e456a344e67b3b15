"""`lakewarden survey`: every Delta table below some places, whoever wrote it, and what is wrong with it. Needs no warehouse."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from lakewarden.base.connection import Connection, Location
from lakewarden.base.quantities import in_units
from lakewarden.base.setting_sections import PricesSettings
from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, json_list, pause, printable, progress, row_of, until_stopped, write_whole
from lakewarden.errors import InvalidArgument

if TYPE_CHECKING:
    from lakewarden.maintenance.engine import Progress
    from lakewarden.maintenance.survey.next_look import SurveyRound
    from lakewarden.maintenance.survey.run import Survey
    from lakewarden.maintenance.survey.table_survey import TableSurvey

_MOST_LINES = 1_000
"""Of the table that people read."""

_SHOWN = ("path", "verdict", "version", "bytes", "small_files", "damage", "to_do")


def register(app: typer.Typer) -> None:
    app.command()(survey)


def survey(  # noqa: PLR0913, PLR0917  # a parameter an option
    context: typer.Context,
    uris: list[str] = typer.Argument(metavar="URI...", help="A table, a directory, s3://bucket/prefix, gs://… or abfss://…"),
    out: Path | None = typer.Option(None, help="Write what was found to this file, as JSON."),
    prices: Path | None = typer.Option(
        None, help="Prices to count with, in TOML or JSON: the keys of the settings' section `prices`. Default: S3's list."
    ),
    deep: bool = typer.Option(False, "--deep", help="Read the footers of data files and the deletion vectors, too."),
    keep: bool = typer.Option(
        False, "--keep", help="Keep what was found in the warehouse: the next look costs what changed, and tells it."
    ),
    watch: float | None = typer.Option(None, metavar="SECONDS", min=0, help="Look again each SECONDS, and tell what changed."),
    region: str = typer.Option("", help="Region of an S3 bucket."),
    endpoint: str = typer.Option("", help="http(s)://host[:port] of a store that is not the platform's own."),
    path_style: bool | None = typer.Option(None, "--path-style/--no-path-style", help="Bucket in the path, or in the host."),
    credentials: str = typer.Option("", help="A reference: env:TENANT_A means TENANT_A_ACCESS_KEY_ID and so on."),
) -> None:
    """Look at every Delta table below these places, whoever wrote it: its health, its damage, and what each operation would cost.

    Only lists and reads, and writes nothing there. Ends with 1 where a table is damaged or could not be read.
    """
    from lakewarden.maintenance.survey.verdict import SurveyOptions

    connection = Connection(endpoint, region, path_style, credentials)
    call = invocation(context)
    places = [Location(uri, connection) for uri in uris]
    options = SurveyOptions(read_prices(prices) if prices else PricesSettings(), deep)
    if keep:
        from lakewarden.maintenance.survey.next_look import survey_and_keep

        with call.lake("survey", bar=False) as lake:
            warehouse = lake.warehouse
            if prices is None:
                options = replace(options, prices=warehouse.kept_settings(warehouse.catalog.read()).prices)
            is_well = _look_again(call, partial(survey_and_keep, warehouse, places, options), out, watch)
    elif watch is not None:
        from lakewarden.maintenance.survey.next_look import survey_and_remember

        is_well = _look_again(call, partial(survey_and_remember, {}, places, options), out, watch)
    else:
        from lakewarden.maintenance.survey.run import survey_places
        from lakewarden.maintenance.survey.verdict import survey_table

        with progress("survey") as advance:
            found = survey_places(places, lambda place, table: survey_table(place, table, options), advance)
        is_well = emit_survey(call, found, out)
    if not is_well:
        raise typer.Exit(1)


def _look_again(
    call: Invocation, look: Callable[[Progress], tuple[SurveyRound, Callable[[], object]]], out: Path | None, every: float | None
) -> bool:
    """Looks once, or each so many seconds until Ctrl-C, SIGTERM or a closed pipe; `look` returns also what keeps what it found.
    Returns whether all was well at the last whole look."""
    from lakewarden.maintenance.survey.next_look import watch

    def one(number: int) -> bool:
        with progress("survey") as advance:
            found, keep = look(advance)
        is_well = emit_survey(call, found.survey, out, None if found.is_first else found.before, whole=not number)
        keep()
        sys.stdout.flush()
        return is_well

    if every is None:
        return one(0)
    last = True
    with until_stopped():
        for is_well in watch(one, every, wait=pause):
            last = is_well
    return last


def read_prices(file: Path) -> PricesSettings:
    """Raises InvalidArgument: it cannot be read, or has no prices."""
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        made = msgspec.convert(found.get("prices", found), PricesSettings)
    except OSError as error:
        raise InvalidArgument(f"cannot read the prices in {file}: {error.strerror}") from error
    except (ValueError, msgspec.ValidationError) as error:
        names = ", ".join(PricesSettings.__struct_fields__)
        raise InvalidArgument(f"{file} has no prices: {error}; write {names} as numbers, in TOML or JSON") from error
    if not all(math.isfinite(price) for price in msgspec.to_builtins(made).values()):
        raise InvalidArgument(f"{file} has a price that is not a finite number")
    return made


def emit_survey(
    call: Invocation, found: Survey, out: Path | None, before: Mapping[str, str] | None = None, *, whole: bool = True
) -> bool:
    """Prints what was found, and writes it to the file. Returns whether no table is damaged, and all could be read and listed.

    Args:
        before: where there was a look before: by path, its verdicts of what changed since. What changed stands on top.
        whole: print the others, too; the file always has all.

    Raises:
        LakewardenError: nothing was found, since a place could not be listed.
    """
    if found.unlisted and not found.tables and before is None:
        raise found.unlisted[0].error
    if out is not None:
        write_whole(out, json_list(map(_row, found.tables)))
    if call.as_json:
        sys.stdout.writelines(json_list(_row(each) for each in found.tables if whole or each.change))
    else:
        _emit_lines(call, found, before, whole)
    sys.stderr.writelines(f"{printable(line)}\n" for line in _summary(found, as_json=call.as_json))
    return found.is_well


def _emit_lines(call: Invocation, found: Survey, before: Mapping[str, str] | None, whole: bool) -> None:
    if before is not None:
        changed = ({"was": before.get(each.path, ""), **_line(each)} for each in found.tables if each.change)
        some = [*islice(changed, _MOST_LINES)]
        call.emit(some, empty="nothing changed since the last look", columns=("change", "was", *_SHOWN))
    if before is not None and whole:
        sys.stdout.write("\n")
    if whole:
        there = (_line(each) for each in found.tables if each.change != "gone")
        call.emit([*islice(there, _MOST_LINES)], empty="", columns=_SHOWN)


def _summary(found: Survey, *, as_json: bool) -> Iterator[str]:
    count = len(found.tables)
    if count > _MOST_LINES and not as_json:
        yield f"the first {_MOST_LINES:,} of {count:,}; --out and --format json have all"
    verdicts = ", ".join(f"{number:,} {verdict}" for verdict, number in found.tables.counts.items())
    yield f"{count:,} {'table' if count == 1 else 'tables'}: {verdicts}" if count else "no Delta table there"
    yield from (f"{place} is inside of the table {table}: survey that" for place, table in found.inside)
    yield from (f"{each.error.code}: {each.error.message}" for each in found.unlisted)


def _row(found: TableSurvey) -> Row:
    """All fields; those that people look for come first."""
    return {"path": found.path, "verdict": found.verdict, **row_of(found)}


def _line(found: TableSurvey) -> Row:
    counts = Counter(each.kind for each in found.damage)
    return {
        **{name: getattr(found, name) for name in ("change", "path", "verdict", "version", "bytes", "small_files")},
        "damage": ", ".join(kind if count == 1 else f"{kind} ×{count:,}" for kind, count in counts.items()),
        "to_do": _advice(found),
    }


_ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("hollow", "size-differs", "vector-gone", "vector-short"), "put the files back, or restore"),
    "torn-commit": "put the commit back",
    "log-gap": "put the commits back",
    "checkpoint-contradicts": "vacuum nothing; compare both",
    "duplicate-live-path": "look for doubled rows",
    "remove-without-vector": "look for rows that came back",
    "removes-unknown": "look for a lost commit",
    "partition-value-nulled": "write these rows again",
    **dict.fromkeys(("checkpoint-unreadable", "last-checkpoint-wrong"), "write a new checkpoint"),
    **dict.fromkeys(("unknown-storage-type", "unknown-feature", "unknown-action"), "leave it to its writer"),
    "case-clash": "rename a column",
    "outside-path": "find out who wrote its commit",
}
"""What to do, by the worst damage first."""


def _advice(found: TableSurvey) -> str:
    kinds = {each.kind for each in found.damage}
    if found.verdict == "unreadable" and found.error:
        return found.error
    if found.verdict == "catalog":
        return "leave it to its catalog"
    if found.verdict == "damaged":
        return next((said for kind, said in _ADVICE.items() if kind in kinds), "")
    return "; ".join(_upkeep(found))


def _upkeep(found: TableSurvey) -> Iterator[str]:
    """What maintenance would do with a sound table."""
    compact = found.operations.get("compact")
    if compact is not None and compact.route != "refused" and compact.bytes:
        yield f"compact ({in_units(compact.bytes // 2)}, ${compact.dollars:.2g})"
    if found.dead_bytes:
        yield f"vacuum ({in_units(found.dead_bytes)})"
