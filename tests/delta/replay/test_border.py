"""A table's own directory is its border: each spelling of a path that leads out of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.reading.foreign import open_foreign
from lakewarden.delta.reading.history import entries_below
from lakewarden.delta.replay.columns import all_rows
from lakewarden.delta.replay.paths import OutsideTable
from lakewarden.delta.timeline import walk
from lakewarden.storage.open import open_store
from tests.delta.hand_written import HandWritten, add, bitmap, metadata, protocol


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    """A table, and beside it another's file `other/secret.parquet`."""
    (tmp_path / "other").mkdir()
    pq.write_table(pa.table({"id": [666]}), tmp_path / "other" / "secret.parquet")
    return HandWritten(tmp_path / "mine")


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "above": lambda root: "../other/secret.parquet",
    "above and below": lambda root: "p=1/../../other/secret.parquet",
    "above, escaped": lambda root: "%2e%2e/other/secret.parquet",
    "above, escaped in part": lambda root: ".%2E/other/secret.parquet",
    "above with an escaped slash": lambda root: "..%2Fother%2Fsecret.parquet",
    "above, escaped twice": lambda root: "%252e%252e/other/secret.parquet",
    "above, escaped three times": lambda root: "%25252e%25252e/other/secret.parquet",
    "absolute": lambda root: f"{root}/other/secret.parquet",
    "absolute, escaped": lambda root: f"%2F{str(root)[1:]}/other/secret.parquet",
    "absolute, escaped twice": lambda root: f"%252F{str(root)[1:]}/other/secret.parquet",
    "file:": lambda root: f"file:{root}/other/secret.parquet",
    "file:///": lambda root: f"file://{root}/other/secret.parquet",
    "file: with a host": lambda root: f"file://localhost{root}/other/secret.parquet",
    "FILE:": lambda root: f"FILE:{root}/other/secret.parquet",
    "file: and above": lambda root: f"file://{root}/mine/../other/secret.parquet",
    "inside and above": lambda root: f"{root}/mine/../other/secret.parquet",
    "s3": lambda root: "s3://another/secret.parquet",
    "s3a": lambda root: "s3a://another/secret.parquet",
    "abfss": lambda root: "abfss://c@a.dfs.core.windows.net/secret.parquet",
    "http": lambda root: "http://169.254.169.254/latest",
    "doubled slash": lambda root: f"/{root}/other/secret.parquet",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_file_outside_is_refused_by_name(table: HandWritten, spelling: str) -> None:
    inside = table.file("a.parquet", [1])
    table.begin(inside, add(SPELLINGS[spelling](table.path.parent)))
    found = open_foreign(table.location)
    with pytest.raises(OutsideTable, match="outside-path"):
        all_rows(found)


def test_a_link_that_leads_out_is_refused_and_one_that_stays_is_not(table: HandWritten) -> None:
    inside = table.file("a.parquet", [1])
    (table.path / "b.parquet").symlink_to(table.path / "a.parquet")
    table.begin(inside, add("b.parquet"))
    assert all_rows(open_foreign(table.location)).to_pydict() == {"id": [1, 1]}
    (table.path / "c.parquet").symlink_to(table.path.parent / "other" / "secret.parquet")
    (table.path / "d").symlink_to(table.path.parent / "other")
    for path in ("c.parquet", "d/secret.parquet"):
        table.commit(1, add(path))
        with pytest.raises(OutsideTable, match="symbolic link"):
            all_rows(open_foreign(table.location))


def test_a_commit_that_is_a_link_out_of_the_table_is_refused(table: HandWritten) -> None:
    other = HandWritten(table.path.parent / "third")
    other.begin(add("x"))
    (table.log / f"{0:020d}.json").symlink_to(other.log / f"{0:020d}.json")
    with pytest.raises(OutsideTable, match="symbolic link"):
        open_foreign(table.location)


def test_older_commits_that_are_links_out_of_the_table_are_refused(table: HandWritten) -> None:
    """Below a checkpoint no opening reads them; histories and timelines do."""
    write_deltalake(table.path, pa.table({"id": [1]}))
    DeltaTable(table.path).create_checkpoint()
    (table.log / f"{0:020d}.json").rename(table.path.parent / "other" / "0.json")
    (table.log / f"{0:020d}.json").symlink_to(table.path.parent / "other" / "0.json")
    for read in (lambda: entries_below(table.location, 1, None), lambda: [*walk(open_store(table.location), 0)]):
        with pytest.raises(OutsideTable, match="symbolic link"):
            read()


@pytest.mark.parametrize("kind", ["p", "prefix", "link"])
def test_a_vector_outside_is_refused_by_name(table: HandWritten, kind: str) -> None:
    size = HandWritten(table.path.parent / "third").vector("v.bin", bitmap([0]))
    outside = table.path.parent / "third" / "v.bin"
    uuid_digits = "ab^-aqEH.-t@S}K{vb[*"
    named = {
        "p": ("p", f"file://{outside}"),
        "prefix": ("u", f"../third{uuid_digits}"),
        "link": ("u", f"ln{uuid_digits}"),
    }
    storage, path = named[kind]
    (table.path / "ln").symlink_to(outside.parent)
    vector = {"storageType": storage, "pathOrInlineDv": path, "offset": 1, "sizeInBytes": size, "cardinality": 1}
    table.begin(table.file("a.parquet", [1, 2], vector=vector), features=("deletionVectors",))
    with pytest.raises(OutsideTable, match="outside-path"):
        all_rows(open_foreign(table.location))


def test_a_vector_of_type_p_inside_is_read(table: HandWritten) -> None:
    size = table.vector("v.bin", bitmap([0]))
    path = f"file://{table.path}/v.bin"
    vector = {"storageType": "p", "pathOrInlineDv": path, "offset": 1, "sizeInBytes": size, "cardinality": 1}
    table.begin(table.file("a.parquet", [1, 2], vector=vector), features=("deletionVectors",))
    assert all_rows(open_foreign(table.location)).to_pydict() == {"id": [2]}


@pytest.mark.parametrize("path", ["../../../other/s.parquet", "file:///other/s.parquet", "%2e%2e/x", "/other/s.parquet"])
def test_a_sidecar_outside_is_refused_by_name(table: HandWritten, path: str) -> None:
    lines = [protocol("v2Checkpoint"), metadata(), {"checkpointMetadata": {"version": 3}}, {"sidecar": {"path": path}}]
    name = table.log / f"{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    name.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(OutsideTable, match="outside-path"):
        open_foreign(table.location)


def test_an_absolute_path_inside_is_read(table: HandWritten) -> None:
    table.file("p=1/a b.parquet", [1])
    table.file("c.parquet", [2])
    table.begin(add(f"file://{table.path}/p%3D1/a%20b.parquet"), add(f"{table.path}/c.parquet"))
    assert all_rows(open_foreign(table.location)).sort_by("id").column("id").to_pylist() == [1, 2]


@pytest.mark.parametrize("path", ["./a.parquet", "p=1/./b.parquet", ".hidden/..c/...d.parquet"])
def test_a_step_that_stays_where_it_is_leads_nowhere(table: HandWritten, path: str) -> None:
    table.file(path, [1])
    table.begin(add(path))
    assert all_rows(open_foreign(table.location)).to_pydict() == {"id": [1]}


@pytest.mark.parametrize("path", ["%2E/a.parquet", "p=1/%252e/b.parquet"])
def test_a_step_that_is_escaped_is_refused_by_name(table: HandWritten, path: str) -> None:
    table.begin(add(path))
    with pytest.raises(OutsideTable, match="outside-path"):
        all_rows(open_foreign(table.location))


@pytest.mark.parametrize("value", ["/", "..", "../..", "%2e%2e", "%252525252525", "file:///x", "", ".", "a//b"])
def test_a_value_of_a_partition_is_no_step(table: HandWritten, value: str) -> None:
    made = pa.table({"p": [value], "id": [1]})
    write_deltalake(table.path, made, partition_by=["p"])
    assert all_rows(open_foreign(table.location)).to_pydict() == {"p": [value or None], "id": [1]}


def test_a_table_of_our_own_has_the_same_border(table: HandWritten) -> None:
    store = open_store(table.location)
    (table.path / "c.parquet").symlink_to(table.path.parent / "other" / "secret.parquet")
    for path in ("c.parquet", "../other/secret.parquet", "%2e%2e/other/secret.parquet", "/other/secret.parquet", "file:/x"):
        with pytest.raises(OutsideTable, match="outside-path"):
            open_file(store, path)
