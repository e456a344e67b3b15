"""Every way in for a value: each takes the samples, and says which of them it refused, and how."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_manager
import httpx
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_flightsql import DatabaseOptions, dbapi

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.flight.service import served
from lakewarden.serve.tokens import operator_token
from tests.doors import forms
from tests.doors.samples import COLUMN_TYPES, Sample, column_of, columns
from tests.fixtures.patience import PATIENCE
from tests.ingest.fitting import fitted
from tests.ingest.templates.files import avro
from tests.serve.conftest import serving
from tests.serve.postgres.conftest import listening

Samples = tuple[Sample, ...]

Refused = Mapping[int, str]
"""The reason by the number of the sample."""

NAMESPACE = "v"


@dataclass(frozen=True)
class Door:
    """`write` fills the table, which has the columns of all types unless the door makes it."""

    name: str
    write: Callable[[Lakehouse, str, Path, Samples], Refused]
    makes_its_table: bool = False


def one_by_one(samples: Samples, write: Callable[[Sample], object], error: type[Exception] = LakewardenError) -> Refused:
    refused = {}
    for sample in samples:
        try:
            write(sample)
        except error as raised:
            refused[sample.number] = str(raised)
    return refused


def _python(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    client = lake.table(table)
    return one_by_one(samples, lambda sample: client.write([{"id": sample.number, sample.column: forms.native(sample)}]))


def _arrow(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    client = lake.table(table)
    return one_by_one(samples, lambda sample: client.write(forms.arrow(sample)))


def _pandas(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    client = lake.table(table)
    return one_by_one(samples, lambda sample: client.write(forms.arrow(sample).to_pandas()))


def _polars(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    client = lake.table(table)
    return one_by_one(samples, lambda sample: client.write(pl.from_arrow(forms.arrow(sample))))


def _literal(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    def write(sample: Sample) -> None:
        lake.sql(f"INSERT INTO {table} (id, {sample.column}) VALUES ({sample.number}, {forms.sql(sample)})")

    return one_by_one(samples, write)


def _updated(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    def write(sample: Sample) -> None:
        lake.table(table).write([{"id": sample.number}])
        lake.sql(f"UPDATE {table} SET {sample.column} = {forms.sql(sample)} WHERE id = {sample.number}")

    return one_by_one(samples, write)


def _by_query(text: str) -> Callable[[Lakehouse, str, Path, Samples], Refused]:
    """Rows of another table: `{0}` is the table that takes them, `{1}` the other, `{2}` the columns, `{3}` those of `s`."""

    def written(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
        other = f"{table}_source"
        lake.sql(f"CREATE SHARED TABLE {other} ({columns()}, PRIMARY KEY (id))")
        refused = _arrow(lake, other, _, samples)
        names = ["id", *map(column_of, COLUMN_TYPES)]
        lake.sql(text.format(table, other, ", ".join(names), ", ".join(f"s.{name}" for name in names)))
        return refused

    return written


def _parameter(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    session = lake.session(user="root", role="system")

    def write(sample: Sample) -> None:
        value = sample.value
        plain = value is None or isinstance(value, (bool, float, bytes)) or (sample.type != "TIME" and not isinstance(value, str))
        given: Any = (
            value if plain and sample.type not in ("DATE", "TIMESTAMP") else None if value is None else forms.text(sample)
        )
        session.sql(f"INSERT INTO {table} (id, {sample.column}) VALUES (?, ?)", params=[sample.number, given])

    return one_by_one(samples, write)


def _http(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    with _client(lake) as client:

        def write(sample: Sample) -> None:
            mark = "FROM_BASE64(?)" if sample.type == "BYTES" and sample.value is not None else "?"
            text = json.dumps(f"INSERT INTO {table} (id, {sample.column}) VALUES (?, {mark})")
            value = json.dumps(sample.value) if sample.type == "JSON" else forms.in_json(sample)
            _done(client.post("/v1/api/sql", content=f'{{"sql": {text}, "params": [{sample.number}, {value}]}}'))

        return one_by_one(samples, write, _Answered)


def _k3(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    with _client(lake) as client:

        def write(sample: Sample) -> None:
            row = f'{{"id": {sample.number}, "{sample.column}": {forms.in_json(sample)}}}'
            namespace, name = table.split(".")
            _done(client.post("/k3/v1/insert", content=f'{{"bucket": "{namespace}", "table": "{name}", "rows": [{row}]}}'))

        return one_by_one(samples, write, _Answered)


def _flight(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    with (
        served(Common.of(lake), Listening("127.0.0.1", 0, flight_port=0)) as port,
        _flight_client(lake, port) as client,
        client.cursor() as cursor,
    ):
        namespace, name = table.split(".")

        def write(sample: Sample) -> None:
            cursor.adbc_ingest(name, forms.arrow(sample), mode="append", db_schema_name=namespace)

        return one_by_one(samples, write, adbc_driver_manager.Error)


def _flight_parameter(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
    with (
        served(Common.of(lake), Listening("127.0.0.1", 0, flight_port=0)) as port,
        _flight_client(lake, port) as client,
        client.cursor() as cursor,
    ):

        def write(sample: Sample) -> None:
            cursor.executemany(f"INSERT INTO {table} (id, {sample.column}) VALUES (?, ?)", forms.arrow(sample))

        return one_by_one(samples, write, adbc_driver_manager.Error)


def _postgres(mark: str) -> Callable[[Lakehouse, str, Path, Samples], Refused]:
    def written(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
        token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
        with (
            listening(lake) as port,
            psycopg.connect(
                host="127.0.0.1", port=port, user="root", password=token, dbname=NAMESPACE, autocommit=True
            ) as client,
        ):

            def write(sample: Sample) -> None:
                values = (sample.number, forms.native(sample))
                client.execute(f"INSERT INTO {table} (id, {sample.column}) VALUES (%s, {mark})", values)

            return one_by_one(samples, write, psycopg.Error)

    return written


def _loaded(kind: str) -> Callable[[Lakehouse, str, Path, Samples], Refused]:
    def load(lake: Lakehouse, table: str, place: Path, samples: Samples) -> Refused:
        path = place / f"samples.{kind}"
        path.write_bytes(_WHOLE[kind](samples))
        report = lake.load(table, str(path), on_reject="skip")
        there = set(lake.table(table).read().column("id").to_pylist())
        missing = [sample.number for sample in samples if sample.number not in there]
        return dict(zip(missing, (each.reason for each in report.rejects), strict=True))

    return load


def _uploaded(template: str) -> Callable[[Lakehouse, str, Path, Samples], Refused]:
    def upload(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
        lake.sql(f"CREATE SHARED TABLE {table} FROM TEMPLATE {template}")
        source = Path(lake.warehouse.uri) / "uploads" / NAMESPACE
        source.mkdir(parents=True, exist_ok=True)
        (source / f"0.{template}").write_bytes(_object(template))
        lake.ingest(table)
        for sample in samples:
            (source / f"{sample.number}.{template}").write_bytes(_object(template, sample))
        lake.ingest(table)
        found = lake.sql(f"SELECT object, error FROM {table}_rejects")[0].to_pylist()  # type: ignore[union-attr]
        return {int(Path(str(row["object"])).stem): str(row["error"]) for row in found}

    return upload


def _message(kind: str) -> Callable[[Lakehouse, str, Path, Samples], Refused]:
    def take(lake: Lakehouse, table: str, _: Path, samples: Samples) -> Refused:
        messages = []
        for sample in samples:
            row = f'{{"id": {sample.number}, "{sample.column}": {forms.in_json(sample)}}}'
            value = row if kind == "json" else f'{{"before": null, "after": {row}, "op": "c"}}'
            messages.append((f'{{"id": {sample.number}}}'.encode(), value.encode()))
        found = fitted(lake, table, kind, *messages)
        lake.table(table).write(found.batch.rows.select(["id", *map(column_of, COLUMN_TYPES)]))
        return {samples[each.offset].number: each.reason for each in found.misfits}

    return take


DOORS = (
    Door("Python: dicts", _python),
    Door("Python: Arrow", _arrow),
    Door("Python: pandas", _pandas),
    Door("Python: Polars", _polars),
    Door("SQL: literal of INSERT", _literal),
    Door("SQL: literal of UPDATE", _updated),
    Door("SQL: INSERT of a query", _by_query("INSERT INTO {0} ({2}) SELECT {2} FROM {1}")),
    Door("SQL: MERGE", _by_query("MERGE INTO {0} t USING {1} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT ({2}) VALUES ({3})")),
    Door("SQL: parameter", _parameter),
    Door("HTTP: parameter in JSON", _http),
    Door("K3: insert over HTTP", _k3),
    Door("Flight SQL: bulk ingest", _flight),
    Door("Flight SQL: parameter", _flight_parameter),
    Door("PostgreSQL: parameter in text", _postgres("%t")),
    Door("PostgreSQL: parameter in binary", _postgres("%b")),
    Door("load: CSV", _loaded("csv")),
    Door("load: JSON", _loaded("json")),
    Door("load: Parquet", _loaded("parquet")),
    Door("upload: CSV", _uploaded("csv"), makes_its_table=True),
    Door("upload: JSON", _uploaded("json"), makes_its_table=True),
    Door("upload: Parquet", _uploaded("parquet"), makes_its_table=True),
    Door("upload: Avro", _uploaded("avro"), makes_its_table=True),
    Door("Kafka: json", _message("json")),
    Door("Kafka: debezium-json", _message("debezium-json")),
)


SPARK = Door("Spark: sink", lambda _lake, _table, _place, _samples: {})
"""Its rows are written at once, by the test that has a session."""


class _Answered(Exception):
    """An answer of HTTP that is an error."""


def _done(answer: httpx.Response) -> None:
    if answer.status_code != 200:
        assert answer.status_code < 500, answer.text
        raise _Answered(answer.text)


@contextmanager
def _client(lake: Lakehouse) -> Iterator[httpx.Client]:
    """An operator's over HTTP."""
    token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    header = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with serving(lake) as url, httpx.Client(base_url=url, timeout=PATIENCE, headers=header) as client:
        yield client


def _flight_client(lake: Lakehouse, port: int) -> dbapi.Connection:
    token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    return dbapi.connect(f"grpc://127.0.0.1:{port}", db_kwargs=header, autocommit=True)


def _csv(samples: Samples) -> bytes:
    """Texts are quoted, since an empty value is NULL."""
    names = ["id", *dict.fromkeys(each.column for each in samples)]
    lines = [",".join(names)]
    lines += [
        ",".join([str(each.number), *(forms.quoted(each) if name == each.column else "" for name in names[1:])])
        for each in samples
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _json_lines(samples: Samples) -> bytes:
    return "".join(f'{{"id": {each.number}, "{each.column}": {forms.in_json(each)}}}\n' for each in samples).encode()


def _object(template: str, sample: Sample | None = None) -> bytes:
    """One row: the typical values, but for the sample's."""
    row = tuple(sample if sample is not None and sample.type == each.type else each for each in _TYPICAL)
    number = 0 if sample is None else sample.number
    match template:
        case "csv":
            lines = (["id", *(each.column for each in row)], [str(number), *map(forms.quoted, row)])
            return "".join(",".join(line) + "\n" for line in lines).encode()
        case "json":
            shown = ", ".join(f'"{each.column}": {forms.in_json(each)}' for each in row)
            return f'{{"id": {number}, {shown}}}\n'.encode()
        case "avro":
            fields = [
                {"name": "id", "type": "long"},
                *({"name": each.column, "type": ["null", _AVRO[each.type]]} for each in row),
            ]
            values = {"id": number, **{each.column: forms.native(each) for each in row}}
            return avro({"type": "record", "name": "r", "fields": fields}, [values])
        case _:
            made = pa.table({"id": pa.array([number], pa.int64())})
            for each in row:
                made = made.append_column(each.column, forms.arrow(each).column(each.column))
            out = io.BytesIO()
            pq.write_table(made, out)
            return out.getvalue()


def _parquet(samples: Samples) -> bytes:
    out = io.BytesIO()
    pq.write_table(forms.all_rows(samples), out)
    return out.getvalue()


_WHOLE: Mapping[str, Callable[[Samples], bytes]] = {"csv": _csv, "json": _json_lines, "parquet": _parquet}

_AVRO: Mapping[str, Any] = {
    "BOOLEAN": "boolean",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL(38,10)": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
    "DECIMAL(18,2)": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
    "DECIMAL(38,38)": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
    "TEXT": "string",
    "BYTES": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
    "TIME": {"type": "long", "logicalType": "time-micros"},
    "UUID": {"type": "string", "logicalType": "uuid"},
    "JSON": "string",
}

_TYPICAL = tuple(
    Sample(0, kind, "typical", value)
    for kind, value in {
        "BOOLEAN": True,
        "SMALLINT": 1,
        "INT": 1,
        "BIGINT": 1,
        "FLOAT": 0.5,
        "DOUBLE": 0.5,
        "DECIMAL(38,10)": Decimal("1234567890123456789.0123456789"),
        "DECIMAL(18,2)": Decimal("1234567890123456.78"),
        "DECIMAL(38,38)": Decimal("0.12345678901234567890123456789012345678"),
        "TEXT": "a",
        "BYTES": b"abc",
        "DATE": date(2026, 11, 22),
        "TIMESTAMP": datetime(2026, 11, 22, 9, 30, tzinfo=UTC),
        "TIME": 1,
        "UUID": "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11",
        "JSON": '{"a": [1]}',
    }.items()
)
"""The row of a first object, which says which columns a pipeline's table has."""
