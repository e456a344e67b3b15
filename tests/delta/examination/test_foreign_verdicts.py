"""Verdicts on some 270 tables of upstream projects, many of which were damaged or left incomplete on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.delta.examination.examination import Examination, examine
from lakewarden.delta.examination.kinds import Verdict
from lakewarden.delta.examination.listing import TableListing
from lakewarden.storage.meter import metered
from lakewarden.storage.open import open_store
from tests.delta.reading.test_foreign import SHARED
from tests.fixtures.minio import MinioServer

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")

HOLLOW = "hollow"
NO_DATA = [
    "delta--checkpoint",
    "delta--corrupted-last-checkpoint",
    "delta--delete-re-add-same-file-different-transactions",
    "delta--deltalog-commit-info",
    "delta--log-replay-special-characters-b",
    "delta--parquet-decimal-dictionaries-v1",
    "delta--spark-variant-stable-feature-checkpoint",
    "delta--update-deleted-directory",
    "kern--app-txn-with-last-updated",
    "kern--with_checkpoint_no_last_checkpoint",
    "rs--checkpoint_with_partitions",
    "rs--checkpoints",
    "rs--checkpoints_vacuumed",
    "rs--latest_not_checkpointed",
    "rs--spark-variant-stable-feature-checkpoint",
    "rs--table_a",
    "rs--table_b",
    "rs--with_checkpoint_no_last_checkpoint",
]
"""Fixtures of a log without the files that it names."""

DAMAGED: dict[str, set[str]] = {name: {HOLLOW} for name in NO_DATA} | {
    "delta--deltalog-invalid-protocol-version": {HOLLOW, "unknown-feature"},
    "delta--corrupted-last-checkpoint-kernel": {"last-checkpoint-wrong"},
    "delta--deltalog-state-reconstruction-from-checkpoint-missing-metadata": {HOLLOW, "checkpoint-unreadable"},
    "delta--deltalog-state-reconstruction-from-checkpoint-missing-protocol": {HOLLOW, "checkpoint-unreadable"},
    "delta--partitioned-table-with-dv-large": {"vector-gone"},
    "delta--table-with-dv-gigantic": {HOLLOW, "vector-gone"},
    "delta--table-with-dv-large": {"vector-gone"},
    "delta--table-with-dv-small": {"vector-gone"},
    # a checkpoint, and no commit at all
    "rs--table-with-domain-metadata": {HOLLOW, "log-gap"},
    # a gap that no checkpoint bridges: the version below it is shown
    "delta--versions-not-contiguous": {HOLLOW, "log-gap"},
    "rs--table_c": {HOLLOW, "log-gap"},
}

UNREADABLE: dict[str, set[str]] = {
    # no metadata or protocol, or metadata without a schema
    "delta--canonicalized-paths-normal-b": set(),
    "delta--canonicalized-paths-special-a": set(),
    "delta--data-reader-absolute-paths-escaped-chars": set(),
    "delta--deltalog-state-reconstruction-without-metadata": set(),
    "delta--deltalog-state-reconstruction-without-protocol": set(),
    # neither a commit nor a checkpoint
    "kern--crc-malformed": set(),
    # may be sound for a writer that knows more
    "delta--collations-preview-table": {"unknown-feature"},
    "delta--collations-table": {"unknown-feature"},
    "delta--transaction_log_schema_evolvability": {"unknown-action"},
    "kern--table-with-geo": {"unknown-feature"},
    "rs--simple_table_features": {"unknown-feature"},
}

CATALOG = {
    "delta--catalog-owned-preview",
    "delta--delta-2",
    # of these the published commits alone are there
    "rs--table_d",
    "rs--table_e",
    "rs--table_f",
    "rs--table_h",
    "rs--table_i",
}

TABLES = sorted(path.parent for path in SHARED.rglob("_delta_log"))


def listing_of(table: Path) -> TableListing:
    """Without the objects of tables inside of it."""
    inner = [f"{each.relative_to(table)}/" for each in TABLES if table in each.parents]
    found = open_store(Location(str(table))).list("")
    return TableListing.of(each for each in found if not each.key.startswith(tuple(inner)))


def kinds(found: Examination) -> set[str]:
    return {note.kind for note in found.notes if note.damaging}


def expected(name: str) -> tuple[Verdict, set[str] | None]:
    if name in CATALOG:
        return "catalog", None
    if name in UNREADABLE:
        return "unreadable", UNREADABLE[name]
    return ("damaged", DAMAGED[name]) if name in DAMAGED else ("sound", set())


@pytest.mark.parametrize("deep", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_verdict(table: Path, deep: bool) -> None:
    verdict, damage = expected(table.name)
    found = examine(Location(str(table)), listing_of(table), deep=deep)
    assert found.verdict == verdict, (found.notes, found.error)
    assert damage is None or kinds(found) == damage, found.notes


def test_most_of_them_are_sound() -> None:
    assert sum(expected(table.name)[0] == "sound" for table in TABLES) > 200


@pytest.mark.slow
def test_one_request_by_a_checksum_and_else_the_log_from_its_checkpoint(
    minio: MinioServer, request: pytest.FixtureRequest
) -> None:
    """Tables of Spark 4.4, copied to a bucket in the order of their names."""
    by_checksum = 0
    for table in (each for each in TABLES if each.parent.name == "spark44"):
        location = Location(f"{minio.prefix_for(request.node.name)}/{table.name}")
        store = open_store(location)
        for path in sorted(each for each in table.rglob("*") if each.is_file()):
            store.put(str(path.relative_to(table)), path.read_bytes())
        listing = TableListing.of(store.list(""))
        with metered() as account:
            found = examine(location, listing)
        spent = account.total()
        assert (found.verdict, spent.get("LIST", 0)) == ("sound", 0), table.name
        by_checksum += found.read == "checksum"
        assert spent["GET"] <= (1 if found.read == "checksum" else 2 + (found.figures.commits_since_checkpoint or 0)), table.name
        on_disk = examine(Location(str(table)), listing_of(table))
        assert found.state is not None
        assert on_disk.state is not None
        mine, theirs = (each.files.select(["key", "vectorId", "size"]).sort_by("key") for each in (found.state, on_disk.state))
        assert mine.equals(theirs), table.name
        assert (found.figures.dead_bytes, found.figures.vector_rows) == (on_disk.figures.dead_bytes, on_disk.figures.vector_rows)
    assert by_checksum >= 20
