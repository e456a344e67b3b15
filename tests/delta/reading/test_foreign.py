"""Tables of other writers: each feature by a table that is made here, and all of ../shared/foreign where that is there."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.base.clock import to_millis
from lakewarden.base.connection import Location
from lakewarden.delta.examination.second_opinion import _vectors_differ
from lakewarden.delta.features import FEATURES, OPERATIONS, features_of, in_use, route
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.foreign import open_foreign, version_at
from lakewarden.delta.replay.actions import Protocol
from lakewarden.delta.replay.columns import DeltaColumns, all_rows
from lakewarden.delta.replay.log_objects import LogObjects
from lakewarden.delta.replay.log_state import replay
from lakewarden.errors import Corrupt, InvalidArgument, LakewardenError, NotFound, Unsupported
from tests.delta.hand_written import HandWritten, Json, add, bitmap, inline, metadata

SHARED = Path(os.environ.get("LAKEWARDEN_FOREIGN", Path(__file__).parents[4] / "shared" / "foreign"))
"""Some 270 tables of upstream projects, which are not part of this one."""


def rows(table: HandWritten, names: list[str] | None = None) -> dict[str, list[Any]]:
    return all_rows(open_foreign(table.location), names).to_pydict()


def field(name: str, kind: object, **said: object) -> Json:
    more = {f"delta.columnMapping.{key}": value for key, value in said.items()}
    return {"name": name, "type": kind, "nullable": True, "metadata": more}


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    return HandWritten(tmp_path / "t")


def test_a_table_of_delta_rs_with_partitions_of_every_type(tmp_path: Path) -> None:
    values = {
        "b": [True, None],
        "i": pa.array([1, None], pa.int32()),
        "d": [date(2024, 2, 29), None],
        "t": pa.array([datetime(2024, 1, 1, 12, 30, 1, 5, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "m": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "s": ["a/b %2F ü", None],
        "f": [1.5, None],
    }
    made = pa.table({**values, "id": [1, 2]})
    write_deltalake(tmp_path / "t", made, partition_by=[*values])
    found = all_rows(open_foreign(Location(str(tmp_path / "t")))).sort_by("id")
    assert found.to_pydict() == made.to_pydict()
    assert found.schema.types == made.schema.types


def test_values_of_partitions_as_delta_spells_them(table: HandWritten) -> None:
    kinds = {"n": "timestamp_ntz", "t": "timestamp", "x": "binary", "b": "byte", "s": "short", "e": "string", "f": "float"}
    said = {"n": "2024-01-01 00:00:00.5", "t": "2024-01-01 01:02:03", "x": "\x01a", "b": "-128", "s": "7", "e": "", "f": "NaN"}
    table.begin(
        table.file("a.parquet", [1], partition=said),
        fields=[*(field(*kind) for kind in kinds.items()), field("id", "long")],
        partition_by=[*kinds],
        features=("timestampNtz",),
    )
    found = rows(table)
    assert found.pop("f")[0] != 0
    assert found == {
        "n": [datetime(2024, 1, 1, 0, 0, 0, 500_000)],  # noqa: DTZ001  # it has no zone
        "t": [datetime(2024, 1, 1, 1, 2, 3, tzinfo=UTC)],
        "x": [b"\x01a"],
        "b": [-128],
        "s": [7],
        "e": [None],
        "id": [1],
    }
    table.commit(1, table.file("b.parquet", [1], partition={**said, "b": "many"}))
    with pytest.raises(Corrupt, match="partition column b has the value 'many'"):
        rows(table)


@pytest.mark.parametrize(
    ("said", "days"),
    [("-0001-03-15", -719820), ("0000-01-01", -719528), ("+10000-01-01", 2932897), ("99999-12-31", 35804721)],
)
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_partitions_of_years_that_have_no_four_digits(table: HandWritten, kind: str, said: str, days: int) -> None:
    """As Spark spells them, which Python and Arrow don't read: of dates with a plus, of timestamps without."""
    text, micros = (said, 0) if kind == "date" else (f"{said.removeprefix('+')} 01:59:59.25", 7_199_250_000)
    fields = [field("p", kind), field("id", "long")]
    table.begin(table.file("a.parquet", [1], partition={"p": text}), fields=fields, partition_by=["p"])
    found = all_rows(open_foreign(table.location)).column("p")
    assert found.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist() == [days * 86_400_000_000 + micros]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_nested_ones_too(table: HandWritten, mode: str) -> None:
    """After a rename, a swap of two names, a column that was dropped and made anew, and one that the file has not."""
    within = [field("x", "long", physicalName="c-x", id=11), field("new", "long", physicalName="c-n", id=12)]
    inner = {"type": "struct", "fields": within}
    fields = [
        field("a", "long", physicalName="c-b", id=2),
        field("b", "long", physicalName="c-a", id=1),
        field("s", inner, physicalName="c-s", id=3),
        field("l", {"type": "array", "elementType": inner, "containsNull": True}, physicalName="c-l", id=4),
        field("m", {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}, physicalName="c-m", id=5),
        field("late", "string", physicalName="c-late", id=6),
        field("p", "string", physicalName="c-p", id=7),
    ]

    def named(name: str, id_: int, kind: Any) -> pa.Field[Any]:
        return pa.field(name if mode == "name" else f"other {id_}", kind, metadata={"PARQUET:field_id": str(id_)})

    struct = pa.struct([named("c-gone", 13, pa.int64()), named("c-x", 11, pa.int64())])
    one: Any = {struct.field(0).name: 0, struct.field(1).name: 5}
    kinds = [pa.int64(), pa.int64(), struct, pa.list_(struct), pa.map_(pa.string(), struct)]
    names = ["c-a", "c-b", "c-s", "c-l", "c-m"]
    schema = pa.schema([named(name, id_, kind) for id_, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)])
    columns = [[1, 1], [2, 2], [one, None], [[one, None], None], [[("k", one)], None]]
    made = pa.table([pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], schema=schema)
    table.begin(
        table.file("a.parquet", made, partition={"c-p": "part"}),
        fields=fields,
        partition_by=["p"],
        configuration={"delta.columnMapping.mode": mode},
        features=("columnMapping",),
    )
    read = {"x": 5, "new": None}
    assert rows(table) == {
        "a": [2, 2],
        "b": [1, 1],
        "s": [read, None],
        "l": [[read, None], None],
        "m": [[("k", read)], None],
        "late": [None, None],
        "p": ["part", "part"],
    }
    assert rows(table, ["late", "b"]) == {"late": [None, None], "b": [1, 1]}
    with pytest.raises(InvalidArgument, match="no column c-a"):
        rows(table, ["c-a"])


def test_types_that_were_widened(table: HandWritten) -> None:
    """Files of both: narrow and wide ("Type Widening")."""
    narrow = {
        "i": pa.array([1], pa.int8()),
        "l": pa.array([2], pa.int32()),
        "d": pa.array([1.5], pa.float32()),
        "f": pa.array([3], pa.int16()),
        "m": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "w": pa.array([7], pa.int32()),
        "n": pa.array([date(2024, 1, 1)]),
        "a": pa.array([[1]], pa.list_(pa.int32())),
    }
    wide = ["integer", "long", "double", "double", "decimal(10,3)", "decimal(12,2)", "timestamp_ntz"]
    kinds = [*wide, {"type": "array", "elementType": "long", "containsNull": True}]
    table.begin(
        table.file("a.parquet", pa.table(narrow)),
        fields=[field(name, kind) for name, kind in zip(narrow, kinds, strict=True)],
        features=("typeWidening", "timestampNtz"),
    )
    found = open_foreign(table.location)
    assert all_rows(found).schema == DeltaColumns.of(found.metadata).schema
    assert all_rows(found).to_pydict() == {
        "i": [1],
        "l": [2],
        "d": [1.5],
        "f": [3.0],
        "m": [Decimal("1.500")],
        "w": [Decimal("7.00")],
        "n": [datetime(2024, 1, 1)],  # noqa: DTZ001  # it has no zone
        "a": [[1]],
    }


def test_int96_in_nested_types(table: HandWritten) -> None:
    """As Spark writes timestamps to this day; also of years that nanoseconds do not reach."""
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), None]
    stamp = pa.timestamp("us", "UTC")
    deep = pa.array([[{"t": moment}] for moment in moments], pa.list_(pa.struct([("t", stamp)])))
    made = pa.table({"t": pa.array(moments, stamp), "d": deep})
    said = table.file("a.parquet", made)
    pq.write_table(made, table.path / "a.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    inner = {"type": "struct", "fields": [field("t", "timestamp")]}
    table.begin(said, fields=[field("t", "timestamp"), field("d", {"type": "array", "elementType": inner, "containsNull": True})])
    assert rows(table) == made.to_pydict()


@pytest.mark.parametrize("groups", [1, 3, 1000])
def test_vectors_hide_rows_over_row_groups(table: HandWritten, groups: int) -> None:
    made = pa.table({"id": pa.array(range(10), pa.int64())})
    said = table.file("a.parquet", made, vector=inline(bitmap([0, 3, 4, 9]), 4))
    pq.write_table(made, table.path / "a.parquet", row_group_size=groups)
    table.begin(said, table.file("b.parquet", [77]), features=("deletionVectors",))
    assert rows(table) == {"id": [1, 2, 5, 6, 7, 8, 77]}


def test_columns_of_no_file_and_of_no_table(table: HandWritten) -> None:
    udt = {"type": "udt", "sqlType": "long"}
    kinds = {"v": "void", "n": "null", "c": "varchar(3)", "u": udt, "d": "decimal", "t": "timestamp_ltz"}
    table.begin(table.file("a.parquet", [1]), fields=[field("id", "long"), *(field(*kind) for kind in kinds.items())])
    assert rows(table) == {"id": [1]} | {name: [None] for name in kinds}
    assert rows(table, []) == {}


def test_names_in_other_letters_and_a_path_that_was_not_escaped(table: HandWritten) -> None:
    table.begin(table.file("a%20b.parquet", pa.table({"ID": [1]})))
    assert rows(table) == {"id": [1]}


@pytest.mark.parametrize("kind", ["variant", "interval", "geometry(OGC:CRS84)", "decimal(99,1)"])
def test_a_type_that_is_not_read_is_refused_by_name(table: HandWritten, kind: str) -> None:
    table.begin(table.file("a.parquet", [1]), fields=[field("id", "long"), field("v", kind)])
    with pytest.raises(Unsupported, match=f"column v has the type {kind[:7].upper()}"):
        rows(table)


@pytest.mark.parametrize("name", ["dreams", "catalogManaged", "catalogOwned-preview", "redirectReaderWriter-preview"])
def test_a_feature_that_is_not_read_is_refused_by_name(table: HandWritten, name: str) -> None:
    table.begin(table.file("a.parquet", [1]), features=(name,))
    with pytest.raises(Unsupported, match=name):
        open_foreign(table.location)


def test_a_version_of_the_protocol_above_those_known_is_refused(table: HandWritten) -> None:
    table.commit(0, {"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}, metadata())
    with pytest.raises(Unsupported, match="reader version 4"):
        open_foreign(table.location)


@pytest.mark.parametrize("type_", ["array", "map", "struct"])
@pytest.mark.parametrize(
    "stored", [pa.array([1]), pa.array([{"x": 1}]), pa.array([[1]]), pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64()))]
)
def test_a_nested_column_that_is_stored_as_something_else_is_named(table: HandWritten, type_: str, stored: pa.Array[Any]) -> None:
    kinds: dict[str, dict[str, object]] = {
        "array": {"elementType": "long", "containsNull": True},
        "map": {"keyType": "long", "valueType": "long", "valueContainsNull": True},
        "struct": {"fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]},
    }
    field = {"name": "c", "type": {"type": type_, **kinds[type_]}, "nullable": True, "metadata": {}}
    table.begin(table.file("a.parquet", pa.table({"c": stored})), fields=[field])
    if str(stored.type).replace("list", "array").startswith(type_):
        assert rows(table)
        return
    with pytest.raises(Corrupt, match=r"the column c of a data file is no .*: it is stored as"):
        rows(table)


@pytest.mark.parametrize(
    ("versions", "meant"),
    [
        ((1, 1), set[str]()),
        ((1, 2), {"appendOnly", "invariants"}),
        ((1, 4), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        ((2, 5), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"}),
        ((3, 7), set[str]()),
    ],
)
def test_legacy_versions_mean_features(versions: tuple[int, int], meant: set[str]) -> None:
    assert features_of(Protocol(*versions)) == meant


def test_a_feature_in_the_protocol_is_not_one_in_use(table: HandWritten) -> None:
    names = ["deletionVectors", "columnMapping", "typeWidening", "variantType", "clustering", "rowTracking", "identityColumns"]
    table.begin(table.file("a.parquet", [1]), features=tuple(names))
    state = replay(table.location)
    assert state is not None
    assert in_use(state) == ()
    assert {route(state, operation).engine for operation in OPERATIONS} == {"native"}
    table.commit(1, table.file("b.parquet", [1, 2], vector=inline(bitmap([0]), 1)))
    state = replay(table.location)
    assert state is not None
    assert [feature.name for feature in in_use(state)] == ["deletionVectors"]


def test_every_feature_has_a_reason_where_it_is_not_native() -> None:
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
    assert all(feature.reason for feature in FEATURES if {*feature.routes.values()} - {"native"})


def test_versions_and_moments_of_the_past(table: HandWritten) -> None:
    table.begin(table.file("a.parquet", [0]))
    first = datetime(2024, 1, 1, tzinfo=UTC)
    for version in range(1, 4):
        table.commit(version, table.file(f"{version}.parquet", [version]))
    for version in range(4):
        when = (first + timedelta(days=version)).timestamp()
        os.utime(table.log / f"{version:020d}.json", (when, when))

    def newest(as_of: AsOf | None) -> int:
        return max(map(int, all_rows(open_foreign(table.location, as_of)).column("id").to_pylist()))  # type: ignore[arg-type]

    assert newest(None) == 3
    assert newest(AsOf.of(version=1)) == 1
    assert newest(AsOf.of(timestamp=first + timedelta(days=2, hours=1))) == 2
    with pytest.raises(NotFound, match="had no version"):
        newest(AsOf.of(timestamp=first - timedelta(days=1)))
    with pytest.raises(NotFound, match="the newest is 3"):
        newest(AsOf.of(version=9))
    table.commit(4, {"commitInfo": {"inCommitTimestamp": 1_000}}, table.file("4.parquet", [4]))
    assert newest(AsOf.of(timestamp=first + timedelta(days=30))) == 4


@pytest.mark.parametrize(
    ("name", "kind", "said", "meant"),
    [
        ("n", "integer", 2020, 2020),
        ("b", "boolean", True, True),
        ("f", "double", 1.5, 1.5),
        ("s", "string", 7, "7"),
        ("z", "string", None, None),
    ],
)
def test_values_of_other_json_types_are_read_as_delta_rs_reads_them(
    table: HandWritten, name: str, kind: str, said: Any, meant: object
) -> None:
    file = table.file("a.parquet", [1], partition={name: said})
    file["add"] |= {"modificationTime": 1.5e12, "tags": {"t": 1}}
    settings: Any = {"delta.appendOnly": True, "x": 1}
    table.begin(file, fields=[field("id", "long"), field(name, kind)], partition_by=[name], configuration=settings)
    assert rows(table) == {"id": [1], name: [meant]}
    state = replay(table.location)
    assert state is not None
    assert state.metadata.configuration == {"delta.appendOnly": "true", "x": "1"}
    assert DeltaTable(table.path).to_pyarrow_table().to_pydict() == rows(table)


@pytest.mark.parametrize("said", [[1], {"a": 1}])
def test_a_value_that_is_no_scalar_is_named(table: HandWritten, said: Any) -> None:
    table.begin(table.file("a.parquet", [1], partition={"n": said}))
    with pytest.raises(Corrupt, match="not as Delta's protocol has it"):
        open_foreign(table.location)


@pytest.mark.parametrize(
    ("own", "written", "expected"),
    [
        ([None] * 4, [10, 30, 20, 40], {5: None, 10: 0, 25: 0, 30: 2, 35: 2, 40: 3, 99: 3}),
        ([None, None, 25, 45], [10, 30, 90, 95], {5: None, 10: 0, 24: 0, 25: 2, 44: 2, 45: 3, 99: 3}),
        ([5, 25, 35, 45], [99, 1, 1, 1], {4: None, 5: 0, 34: 1, 35: 2, 99: 3}),
        ([5, 25, None, None], [10, 20, 30, 40], {9: None, 10: 0, 25: 1, 30: 2}),
    ],
    ids=["written out of order", "kept from version 2 on", "kept from the first on", "kept no more"],
)
def test_the_version_of_a_moment(
    table: HandWritten, own: list[int | None], written: list[int], expected: dict[int, int | None]
) -> None:
    """A version counts from when it and all before it were there. Times in seconds of a day."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    table.begin()
    for version, (said, second) in enumerate(zip(own, written, strict=True)):
        info = {} if said is None else {"inCommitTimestamp": to_millis(day + timedelta(seconds=said))}
        table.commit(version, {"commitInfo": info})
        when = (day + timedelta(seconds=second)).timestamp()
        os.utime(table.log / f"{version:020d}.json", (when, when))
    found: dict[int, int | None] = {}
    for second in expected:
        found[second] = None
        with suppress(NotFound):
            found[second] = version_at(table.location, day + timedelta(seconds=second))
    assert found == expected


def test_a_moment_in_a_long_log_is_searched(table: HandWritten, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log in which commits keep their times few are read, and one where they do not."""
    day, read = datetime(2024, 1, 1, tzinfo=UTC), list[str]()
    original = LogObjects.read

    def noted(log: LogObjects, name: str, most: int) -> bytes:
        read.append(name)
        return original(log, name, most)

    monkeypatch.setattr(LogObjects, "read", noted)
    for version in range(200):
        table.commit(version, {"commitInfo": {"inCommitTimestamp": to_millis(day + timedelta(hours=version))}})
    assert version_at(table.location, day + timedelta(hours=77, minutes=1)) == 77
    assert len(read) <= 10
    table.commit(200, {"commitInfo": {}})
    read.clear()
    assert version_at(table.location, datetime.now(UTC) + timedelta(days=1)) == 200
    assert len(read) == 1


def test_a_place_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no Delta table"):
        open_foreign(Location(str(tmp_path)))


@pytest.mark.parametrize("text", ["", '{"protocol": {"minRea', "{}\n{", json.dumps({"protocol": {}}, indent=2)])
def test_a_log_without_a_whole_commit_is_no_place_without_a_table(table: HandWritten, text: str) -> None:
    """A commit is one action a line: Spark reads no other, and neither do we."""
    (table.log / f"{0:020d}.json").write_text(text)
    with pytest.raises(Corrupt, match=f"torn-commit: {table.location.uri} has no whole commit"):
        open_foreign(table.location)


def test_a_file_that_is_gone_or_garbled_is_named(table: HandWritten) -> None:
    table.begin(add("gone.parquet"))
    with pytest.raises(Corrupt, match=r"hollow: the data file gone\.parquet"):
        rows(table)
    (table.path / "gone.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Corrupt, match="garbled"):
        rows(table)
    pq.write_table(pa.table({"id": ["text"]}), table.path / "gone.parquet")
    with pytest.raises(Corrupt, match="column id of a data file is no int64"):
        rows(table)


def _shared() -> list[str]:
    return sorted(str(log.parent.relative_to(SHARED)) for log in SHARED.glob("*/**/_delta_log"))


def _bag(found: pa.Table) -> Counter[Any]:
    columns = [map(repr, column.to_pylist()) for column in found.columns]
    return Counter(zip(*columns, strict=True))


RIGHT = {"tables/rs--table_with_edge_timestamps": "delta-rs reads an INT96 of the year 9999 as one of 1816"}


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the tables of upstream projects are not beside this checkout")
def test_every_shared_table_is_as_delta_rs_has_it() -> None:
    """Version, live files with their vectors, protocol, configuration and rows, wherever delta-rs opens and reads them."""
    differing, compared = [], 0
    for name in _shared():
        theirs = _theirs(SHARED / name)
        if theirs is None:
            _ends_by_name(SHARED / name)
            continue
        compared += 1
        if (said := _difference(SHARED / name, theirs)) and name not in RIGHT:
            differing.append(f"{name}: {said}")
    assert not differing
    assert compared > 200


def _theirs(path: Path, version: int | None = None) -> DeltaTable | None:
    try:
        return DeltaTable(path, version=version)
    except Exception:  # noqa: BLE001  # whatever it is: it opens no table
        return None


def _ends_by_name(path: Path) -> None:
    with suppress(LakewardenError):
        all_rows(open_foreign(Location(str(path))))


def _difference(path: Path, theirs: DeltaTable) -> str:
    ours = replay(Location(str(path)), theirs.version())
    assert ours is not None
    adds = pa.RecordBatchReader.from_stream(theirs.get_add_actions()).read_all()
    live = sorted(unquote(str(one)) for one in adds.column("path").to_pylist())
    if live != sorted(unquote(str(one)) for one in ours.files.column("path").to_pylist()):
        return "live files"
    said, found = theirs.protocol(), ours.protocol
    if (said.min_reader_version, said.min_writer_version) != (found.min_reader_version, found.min_writer_version):
        return "protocol"
    if {*(said.writer_features or ())} != {*(found.writer_features or ())}:
        return "features"
    if theirs.metadata().configuration != ours.metadata.configuration:
        return "configuration"
    if differs := [*_vectors_differ(ours, theirs)] if _reads_vectors(theirs) else []:
        return differs[0]
    return _rows_differ(path, theirs)


def _reads_vectors(theirs: DeltaTable) -> bool:
    try:
        pa.RecordBatchReader.from_stream(theirs.deletion_vectors()).read_all()
    except Exception:  # noqa: BLE001  # vectors that are missing, and files without a count
        return False
    return True


def _rows_differ(path: Path, theirs: DeltaTable) -> str:
    try:
        read = pa.RecordBatchReader.from_stream(theirs.scan()).read_all()
    except Exception:  # noqa: BLE001  # files that are missing, and types that it does not read
        return ""
    try:
        ours = all_rows(open_foreign(Location(str(path)), AsOf.of(version=theirs.version())))
    except LakewardenError as error:
        return "" if "VARIANT" in error.message else error.message
    return "" if _bag(read.select(ours.column_names)) == _bag(ours) else "rows"


@pytest.mark.night
@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the tables of upstream projects are not beside this checkout")
def test_every_version_of_every_shared_table_is_as_delta_rs_has_it() -> None:
    differing = []
    for name in _shared():
        newest = _theirs(SHARED / name)
        last = -1 if newest is None or newest.version() > 50 else newest.version()
        for version in range(last):
            theirs = _theirs(SHARED / name, version)
            if theirs is not None and theirs.version() == version and (said := _difference(SHARED / name, theirs)):
                differing.append(f"{name} at version {version}: {said}")
    assert [one for one in differing if not one.startswith(tuple(RIGHT))] == []
