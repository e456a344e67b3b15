"""Files become rows of a table, all in one commit or none."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import LoadSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import InvalidArgument, LakewardenError, NotFound, RowsRejected, Unsupported
from lakewarden.ingest.load_run import OnReject
from tests.fixtures.minio import MinioServer

_COLUMNS = [
    Column("id", "BIGINT", nullable=False),
    Column("name", "TEXT"),
    Column("at", "TIMESTAMP"),
    Column("price", "DECIMAL(10,2)"),
    Column("seen", "BOOLEAN"),
    Column("raw", "BYTES"),
    Column("doc", "JSON"),
    Column("state", "TEXT", default="'new'"),
]
_AT = datetime(2026, 11, 22, 10, tzinfo=UTC)
_ROWS = [
    {"id": 1, "name": "a", "at": _AT, "price": Decimal("1.50"), "seen": True, "raw": b"\x00", "doc": '{"a": 1}', "state": "new"},
    {"id": 2, "name": "b\nc", "at": None, "price": None, "seen": None, "raw": None, "doc": None, "state": "new"},
    {"id": 3, "name": "", "at": _AT, "price": Decimal(2), "seen": False, "raw": b"", "doc": "[]", "state": "new"},
]
_CSV = """id,name,at,price,seen,raw,doc
1,a,2026-11-22 10:00:00,1.5,true,AA==,"{""a"": 1}"
2,"b
c",,,,,

3,"",2026-11-22T12:00:00+02:00,2,0,"",[]
"""
_JSON = """{"id": 1, "name": "a", "at": "2026-11-22 10:00:00", "price": "1.5", "seen": true, "raw": "AA==", "doc": "{\\"a\\": 1}"}
{"id": 2, "name": "b\\nc", "state": "new"}

{"id": 3, "name": "", "at": "2026-11-22T10:00:00", "price": 2, "seen": false, "raw": "", "doc": []}
"""


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    tiny = Settings(load=LoadSettings(piece_bytes=1 << 10))
    with Lakehouse.open(warehouse_uri, settings=tiny) as opened:
        opened.create_namespace("n")
        opened.create_table("n.plain", columns=_COLUMNS)
        opened.create_table("n.keyed", columns=_COLUMNS, primary_key=["id"])
        opened.create_table("n.mine", type="USER", columns=_COLUMNS, primary_key=["id"])
        yield opened


def _rows(lake: Lakehouse, table: str = "n.plain", user: str | None = None) -> list[dict[str, object]]:
    return sorted(lake.table(table).read(user=user).to_pylist(), key=lambda row: int(row["id"]))


def _put(path: Path, text: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def _parquet(path: Path) -> str:
    given = pa.table({name: [row[name] for row in _ROWS] for name in _ROWS[0] if name != "state"})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(given, path, row_group_size=2)
    return str(path)


def test_three_formats_hold_the_same_rows(lake: Lakehouse, tmp_path: Path) -> None:
    files = [
        _put(tmp_path / "in" / "a.csv", _CSV),
        _put(tmp_path / "in" / "b.jsonl", _JSON),
        _parquet(tmp_path / "in" / "c.parquet"),
    ]
    for name, file in zip("abc", files, strict=True):
        lake.create_table(f"n.{name}", columns=_COLUMNS)
        report = lake.load(f"n.{name}", file)
        assert (report.rows, report.rejected, report.version) == (3, 0, 1)
        assert _rows(lake, f"n.{name}") == _ROWS, file


def test_rows_of_a_keyed_table_replace_others_in_one_commit(lake: Lakehouse, tmp_path: Path) -> None:
    lake.table("n.keyed").write([{"id": 1, "name": "old"}, {"id": 9, "name": "kept"}])
    lake.flush("n.keyed")
    first, second = _put(tmp_path / "1.csv", _CSV), _put(tmp_path / "2.csv", "id,name\n3,last\n3,newest\n")
    report = lake.load("n.keyed", [first, second])
    assert report.version == 1
    assert [(row["id"], row["name"]) for row in _rows(lake, "n.keyed")] == [(1, "a"), (2, "b\nc"), (3, "newest"), (9, "kept")]
    assert not lake.pending()


def test_a_column_names_the_users(lake: Lakehouse, tmp_path: Path) -> None:
    lines = [{"id": number, "tenant": f"u{number % 2}"} for number in range(4)]
    path = _put(tmp_path / "rows.ndjson", "\n".join(map(json.dumps, lines)))
    assert lake.load("n.mine", path, user_column="tenant").rows == 4
    assert [row["id"] for row in _rows(lake, "n.mine", "u1")] == [1, 3]
    with pytest.raises(RowsRejected, match="line 1: column 'tenant': None is not the id of a user"):
        lake.load("n.mine", _put(tmp_path / "none.jsonl", '{"id": 1}'), user_column="tenant")
    with pytest.raises(InvalidArgument, match="there is no column 'nope' to name the users; the file's columns are id, tenant"):
        lake.load("n.mine", _put(tmp_path / "other.csv", "id,tenant\n1,u1\n"), user_column="nope")
    assert lake.load("n.mine", _put(tmp_path / "one.csv", "id\n7\n"), user="u7").rows == 1
    with pytest.raises(InvalidArgument, match="name either the user"):
        lake.load("n.mine", path)


_WRONG = 'id,name,at\nx,a,\n1,ok,\n4,b\n\n5,"q\nq",nope\n,c,\n'
_LINES = [(2, "column 'id': 'x'"), (4, "2 values"), (6, "column 'at': 'nope'"), (8, "column 'id': NULL")]


@pytest.mark.parametrize("table", ["n.plain", "n.keyed"])
def test_rejected_rows_are_named_and_nothing_is_loaded(lake: Lakehouse, tmp_path: Path, table: str) -> None:
    good, bad = _put(tmp_path / "a.csv", _CSV), _put(tmp_path / "bad.csv", _WRONG)
    for mode in ("refuse", "stop"):
        chosen: OnReject = "refuse" if mode == "refuse" else "stop"
        with pytest.raises(RowsRejected, match="nothing was loaded") as refused:
            lake.load(table, [good, bad], on_reject=chosen)
        assert refused.value.rejected == 4
        found = [(one.file, one.line) for one in refused.value.rejects]
        assert found == [(bad, line) for line, _ in _LINES]
        assert all(why in one.reason for one, (_, why) in zip(refused.value.rejects, _LINES, strict=True))
        assert not lake.pending()
        assert not _rows(lake, table)
    report = lake.load(table, [good, bad], on_reject="skip")
    assert (report.rows, report.rejected) == (4, 4)
    assert [row["id"] for row in _rows(lake, table)] == ([1, 1, 2, 3] if table == "n.plain" else [1, 2, 3])


def test_a_line_whose_object_has_a_key_twice_is_rejected(lake: Lakehouse, tmp_path: Path) -> None:
    lake.sql("CREATE SHARED TABLE n.keys (id BIGINT PRIMARY KEY, kept JSON)")
    lines = '{"id":1,"kept":{"a":1.10,"b":{"a":"\\":"}}}', '{"id":2,"id":3}', '{"id":4,"kept":[{"a":1,"b":2,"a" :3}]}', '{"id":5}'
    (tmp_path / "keys.jsonl").write_text("\n".join(lines))
    report = lake.load("n.keys", str(tmp_path / "keys.jsonl"), on_reject="skip")
    assert [each.reason.partition("an object ")[2] for each in report.rejects] == [
        "in it has the key 'id' twice",
        "in it has the key 'a' twice, at `$.kept[0]`",
    ]
    assert lake.table("n.keys").read().column("id").to_pylist() == [1, 5]


def test_rejects_of_json_and_parquet(lake: Lakehouse, tmp_path: Path) -> None:
    lines = _put(tmp_path / "a.json", '{"id": 1}\n{"id": 2, "nope": 1}\n\nx\n[1]\n{"id": "3"}\n{"id": null}\n')
    with pytest.raises(RowsRejected) as refused:
        lake.load("n.plain", lines)
    assert [one.line for one in refused.value.rejects] == [2, 4, 5, 6, 7]
    pq.write_table(pa.table({"id": [1, 2, 3], "doc": ["{}", "{", "1"]}), tmp_path / "a.parquet", row_group_size=1)
    with pytest.raises(RowsRejected) as refused:
        lake.load("n.plain", str(tmp_path / "a.parquet"))
    assert [(one.line, one.reason.partition(":")[0]) for one in refused.value.rejects] == [(2, "column 'doc'")]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b'{"id": 1}\r{"id": "x"}\r\n{"id": "y"}\r', [2, 3]),
        (b'{"id": "x"}\r\r{"id": 2}\n', [1]),
        (b'{"id": 1}\n  \n\t\r\n{"id": "x"}', [4]),
        (b'{"id": 1}{"id": 2}\n{"id": "x"}', [1, 2]),
        (b'{"id": 1} {"id": "x"}', [1]),
        (b'{"id":\n1}\n{"id": 2}', [1, 2]),
    ],
)
def test_a_line_of_json_is_one_object_wherever_lines_end(lake: Lakehouse, tmp_path: Path, data: bytes, lines: list[int]) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(RowsRejected) as refused:
        lake.load("n.plain", str(tmp_path / "a.jsonl"))
    assert [one.line for one in refused.value.rejects] == lines
    assert lake.table("n.plain").read().num_rows == 0


def test_json_whose_lines_end_in_cr_alone_has_all_its_rows(lake: Lakehouse, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1}\r{"id": 2}\r\r\n{"id": 3}')
    assert lake.load("n.plain", str(tmp_path / "a.jsonl")).rows == 3


@pytest.mark.parametrize(
    ("name", "data", "wrong"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.json", b"", "the file is empty"),
        ("a.csv", b"id,nope\n1,2\n", "unknown column 'nope'"),
        ("a.csv", b"name\nx\n", "column 'id' is missing"),
        ("a.csv", b"id,id\n1,1\n", "names a column twice"),
        ("a.csv", b'id,name\n1,"x\n', "never closed"),
        ("a.parquet", b"PAR1 and no more", "not a Parquet file"),
        ("a.csv.gz", b"id\n1\n", "not a whole gzip file"),
        ("a.csv.gz", gzip.compress(b"id\n1\n" * 99, mtime=0)[:-12], "not a whole gzip file"),
        ("a.parquet.gz", b"", "Parquet is compressed inside"),
        ("a.txt", b"id\n1\n", "does not say the format"),
    ],
)
def test_bad_files_are_refused(lake: Lakehouse, tmp_path: Path, name: str, data: bytes, wrong: str) -> None:
    good = _put(tmp_path / "good.csv", _CSV)
    with pytest.raises(InvalidArgument, match=wrong) as refused:
        lake.load("n.plain", [good, _put(tmp_path / name, data)])
    assert str(tmp_path / name) in refused.value.message
    assert not _rows(lake)


def test_a_page_whose_checksum_does_not_fit_is_refused(lake: Lakehouse, tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    rows = pa.table({"id": pa.array(range(5000), pa.int64())})
    pq.write_table(rows, sink, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(sink.getvalue().to_pybytes())
    data[data.index((2500).to_bytes(8, "little"))] ^= 1  # another number, and still a Parquet file
    assert pq.read_table(pa.BufferReader(bytes(data))).num_rows == 5000
    with pytest.raises(InvalidArgument, match="not a Parquet file that can be read"):
        lake.load("n.plain", _put(tmp_path / "a.parquet", bytes(data)))
    assert not _rows(lake)


@pytest.mark.parametrize("table", ["n.plain", "n.keyed"])
def test_a_file_with_a_header_alone_loads_nothing(lake: Lakehouse, tmp_path: Path, table: str) -> None:
    report = lake.load(table, _put(tmp_path / "none.csv", "id,name\n"))
    assert (report.rows, _rows(lake, table), lake.pending()) == (0, [], [])


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/nowhere/*.csv", NotFound),
        ("s3://key:secret@bucket/*.csv", InvalidArgument),
        ("az://c/x.csv?sig=abc", InvalidArgument),
        ("memory://load-none/*.csv", NotFound),
    ],
)
def test_paths_without_files_or_with_credentials_are_refused(lake: Lakehouse, path: str, error: type[LakewardenError]) -> None:
    with pytest.raises(error) as refused:
        lake.load("n.plain", path)
    assert "secret" not in str(refused.value)
    assert "sig=abc" not in str(refused.value)


def test_other_bad_arguments_are_refused(lake: Lakehouse, tmp_path: Path) -> None:
    path = _put(tmp_path / "a.csv", _CSV)
    lake.create_table("n.filed", columns=[Column("id", "INT"), Column("f", "FILE")], primary_key=["id"])
    with pytest.raises(Unsupported, match="FILE column"):
        lake.load("n.filed", path)
    with pytest.raises(InvalidArgument, match="on_reject"):
        lake.load("n.plain", path, on_reject="forget")  # type: ignore[arg-type]  # what a caller may pass
    with pytest.raises(InvalidArgument, match="format 'xml' does not exist"):
        lake.load("n.plain", path, format="xml")
    with pytest.raises(InvalidArgument, match="SHARED"):
        lake.load("n.plain", path, user="u")
    with pytest.raises(InvalidArgument, match="at least one"):
        lake.load("n.plain", [])


def test_directories_and_patterns(lake: Lakehouse, tmp_path: Path) -> None:
    for name in ("in/b/1.csv", "in/a.csv", "in/_tmp/x.csv", "in/.hidden.csv"):
        _put(tmp_path / name, "id\n1\n")
    assert lake.load("n.plain", str(tmp_path / "in")).files == 2
    assert lake.load("n.plain", str(tmp_path / "in" / "*.csv")).files == 1
    assert lake.load("n.plain", [str(tmp_path / "in" / "**" / "*.csv"), str(tmp_path / "in")]).files == 3


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_file_in_pieces_has_each_row_once_whatever_ends_its_lines(lake: Lakehouse, tmp_path: Path, end: str) -> None:
    names = ['5" pipe', "plain", '"two\rlines"', '"a ""b"""', "x" * 30]
    lines = [f"{number},{names[number % 5]}" for number in range(400)]
    path = _put(tmp_path / "a.csv", end.join(["id,name", *lines]))
    report = lake.load("n.keyed", path)
    assert (report.rows, report.rejected) == (400, 0)
    found = [[str(row["id"]), row["name"]] for row in _rows(lake, "n.keyed")]
    assert found == list(csv.reader(io.StringIO(Path(path).read_bytes().decode(), newline="")))[1:]


def test_a_long_file_is_read_in_pieces(lake: Lakehouse, tmp_path: Path) -> None:
    text = "id,name\n" + "".join(f'{number},"a\n{number}"\n' for number in range(1000))
    report = lake.load("n.plain", [_put(tmp_path / "a.csv", text), _put(tmp_path / "b.csv.gz", gzip.compress(text.encode()))])
    assert report.rows == 2000
    assert report.version == 1
    assert {row["name"] for row in _rows(lake)} == {f"a\n{number}" for number in range(1000)}
    with pytest.raises(RowsRejected) as refused:
        lake.load("n.plain", _put(tmp_path / "a.csv", text.replace('999,"a', 'x,"a')))
    assert refused.value.rejects[0].line == 2 + 2 * 999


def test_only_the_first_rejects_are_named(lake: Lakehouse, tmp_path: Path) -> None:
    with pytest.raises(RowsRejected, match="and 497 more") as refused:
        lake.load("n.plain", _put(tmp_path / "a.csv", "id\n" + "x\n" * 500))
    assert (refused.value.rejected, len(refused.value.rejects)) == (500, 100)


def test_each_row_has_a_default_of_its_own(lake: Lakehouse, tmp_path: Path) -> None:
    columns = [
        Column("id", "BIGINT", default="SNOWFLAKE_ID()"),
        Column("u", "UUID", default="GENERATE_UUID()"),
        Column("n", "INT"),
    ]
    lake.create_table("n.made", columns=columns)
    lake.load("n.made", [_put(tmp_path / "a.csv", "n\n1\n2\n"), _put(tmp_path / "b.json", '{"n": 3}\n{"n": 4, "u": null}\n')])
    rows = sorted(lake.table("n.made").read().to_pylist(), key=lambda row: int(row["n"]))
    assert len({row["id"] for row in rows}) == 4
    assert len({row["u"] for row in rows[:3]}) == 3
    assert rows[3]["u"] is None


def test_files_in_a_bucket(lake: Lakehouse, minio: MinioServer, tmp_path: Path) -> None:
    from obstore.store import S3Store  # another client than the one under test

    place = minio.prefix_for("load").removeprefix(minio.uri).strip("/")
    store = S3Store.from_url(minio.uri, config={}, client_options={"allow_http": True}, virtual_hosted_style_request=False)
    store.put(f"{place}/in/a=1/x.csv", _CSV.encode())
    store.put(f"{place}/in/a=2/y.csv.gz", gzip.compress(b"id\n4\n"))
    store.put(f"{place}/in/z.parquet", Path(_parquet(tmp_path / "z.parquet")).read_bytes())
    store.put(f"{place}/in/_SUCCESS", b"")
    at = f"{minio.uri}/{place}/in"
    assert lake.load("n.plain", f"{at}/a=*/*.csv*").rows == 4
    assert lake.load("n.plain", f"{at}/z.parquet").rows == 3
    report = lake.load("n.plain", f"{at}/")
    assert (report.files, report.rows) == (3, 7)
    with pytest.raises(NotFound, match="no file matches"):
        lake.load("n.plain", f"{at}/nothing/*")


def test_files_in_another_store(lake: Lakehouse) -> None:
    from lakewarden.base.connection import Location
    from lakewarden.storage.open import open_store

    store = open_store(Location("memory://load"))
    for key in ("d/1.csv", "d/e/2.csv", "d/_x/3.csv"):
        store.put(key, b"id\n1\n")
    assert lake.load("n.plain", "memory://load/d/*.csv").files == 1
    assert lake.load("n.plain", "memory://load/d/**/*.csv").files == 3
    assert lake.load("n.plain", "memory://load/d").files == 2
    assert lake.load("n.plain", "memory://load/d/e/2.csv").files == 1
