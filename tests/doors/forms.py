"""A sample in the form that a door takes: for Python and Arrow, for texts such as SQL and CSV, for JSON."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pyarrow as pa

from tests.doors.samples import COLUMN_TYPES, SAMPLES, Sample, column_of


def native(sample: Sample) -> object:
    """As a Python program has it."""
    value = sample.value
    match sample.type:
        case "TIME" if isinstance(value, int):
            return _clock(value)
        case "UUID" if isinstance(value, str) and sample.misfit is None:
            return UUID(value)
        case _:
            return value


def arrow(sample: Sample) -> pa.Table:
    """One row, with the key and the one column."""
    kind = sample.misfit or COLUMN_TYPES[sample.type]
    value = _clock(sample.value) if sample.type == "TIME" and isinstance(sample.value, int) else sample.value
    return pa.table({"id": pa.array([sample.number], pa.int64()), sample.column: pa.array([value], kind)})


def all_rows(samples: tuple[Sample, ...] = SAMPLES) -> pa.Table:
    """All samples as one table: each row has its own column, and NULL in the others."""
    wider = {each.column: each.misfit for each in samples if each.misfit is not None}
    names = {"id": pa.int64(), **{column_of(name): kind for name, kind in COLUMN_TYPES.items()}}
    rows = [{"id": each.number, each.column: _clock(each.value) if _is_time(each) else each.value} for each in samples]
    return pa.Table.from_pylist(rows, pa.schema(list((names | wider).items())))


def text(sample: Sample) -> str:
    """As text that means the value without a type beside it; bytes in base64."""
    value = sample.value
    match value:
        case bool():
            return str(value).lower()
        case int() if sample.type == "TIME":
            return _clock(value).isoformat(timespec="microseconds")
        case float():
            return sample.written or (number(value) if math.isfinite(value) else _odd(value))
        case Decimal():
            return sample.written or format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def quoted(sample: Sample) -> str:
    """As a value of CSV: texts in quotes, since an empty value is NULL."""
    if sample.value is None:
        return ""
    return '"' + text(sample).replace('"', '""') + '"' if isinstance(sample.value, (str, bytes)) else text(sample)


def sql(sample: Sample) -> str:
    """As a literal."""
    value = sample.value
    match value:
        case None:
            return "NULL"
        case bool() | int() | float() | Decimal() if sample.type != "TIME":
            return text(sample) if not isinstance(value, float) or math.isfinite(value) else f"'{_odd(value)}'::DOUBLE"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMPTZ '{text(sample)}'"
        case date():
            return f"DATE '{text(sample)}'"
        case _:
            return "'" + text(sample).replace("'", "''") + "'"


def in_json(sample: Sample) -> str:
    """As a value of JSON: numbers as numbers, with every digit."""
    value = sample.value
    match value:
        case None:
            return "null"
        case str() if sample.type == "JSON":
            return value
        case bool() | int() | float() | Decimal() if sample.type != "TIME" and (
            not isinstance(value, float) or math.isfinite(value)
        ):
            return text(sample)
        case _:
            return json.dumps(text(sample))


def number(value: float) -> str:
    return repr(value)


def _is_time(sample: Sample) -> bool:
    return sample.type == "TIME" and isinstance(sample.value, int)


def _clock(value: object) -> time:
    assert isinstance(value, int)
    return (datetime.min + timedelta(microseconds=value)).time()  # noqa: DTZ901  # a time of day


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
