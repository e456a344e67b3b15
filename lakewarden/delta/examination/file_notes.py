"""What is wrong with the live files of a version, by its log and a listing of the table.

Files stay Arrow columns; an object of Python's is made for what is suspect, and for vectors once for each file that holds some.
Most tables are small and sound, and each call of Arrow takes some 10 µs: so the fewest calls that prove a table sound come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.base.quantities import grouped
from lakewarden.base.threads import COMPUTING, Threads
from lakewarden.delta.examination.listing import ListedFiles
from lakewarden.delta.parquet.reading import read_footer
from lakewarden.delta.parquet.stats import said_ends, whole_number
from lakewarden.delta.replay.actions import Metadata, Vector
from lakewarden.delta.replay.columns import plain_type
from lakewarden.delta.replay.live_files import NO_FILES, matching, pc, vectors_of, whole
from lakewarden.delta.replay.log_state import LogState, Note
from lakewarden.delta.replay.paths import PLAIN, OutsideTable, check_inside
from lakewarden.delta.replay.vectors import bitmap_of, mask_of, vector_key
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_PHYSICAL = "delta.columnMapping.physicalName"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_WITHOUT_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!/)")
_AROUND = 8
"""Bytes of a vector's size before it and of its checksum behind it ("Deletion Vector File Storage Format")."""

_NO_SIZE = -1
"""In the place of a size that the log lacks: no object has it."""

_MOST_NUMBER = (1 << 31) - 1
"""As Delta has the offset and the size of a vector."""

_MOST_INLINE = 1 << 20
"""Characters of vectors in the log that are decoded: all that a writer puts there have some kilobytes together."""

_MOST_MASK = 1 << 24
"""Rows of a file up to which a vector in the log is compared with them."""

_SAID_ROWS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*(\d{1,18})\b')
"""In a file's statistics, where writers put it first. To parse all of them takes longest of all that is done with a vector."""

_SPELLINGS = {
    **dict.fromkeys(("long", "integer", "short", "byte"), r"^\s*[+-]?[0-9]+\s*$"),
    "date": r"^\s*[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}",
    "boolean": r"^\s*(?i:true|false)\s*$",
}
"""Of values of partition columns; what is no date or number is NULL to Spark. Those of other types have many."""

_EXAMPLES = 3
_DEEPEST = 100


@dataclass(frozen=True)
class SuspectObject:
    """An object that is not as the log says. `least` and `most` are the sizes that would be right, in bytes."""

    kind: str
    key: str
    path: str
    """Another key under which some writers store it; the same for vectors."""
    least: int
    most: int | None
    found: int | None
    """Its size by the listing; None where it was not listed."""

    @property
    def file(self) -> tuple[str, str]:
        return self.kind, self.key


def suspects(state: LogState, listed: ListedFiles, sizes: Any, needed: Mapping[str, int]) -> Iterator[SuspectObject]:
    """Files and vectors that are missing by the listing, or have another size.

    Args:
        sizes: of the live files, by the listing.
        needed: as of `of_vectors`.
    """
    yield from _files(state, listed, sizes)
    there = listed.sizes_of(pa.array(needed, pa.string())).to_pylist() if needed else []
    for (key, least), found in zip(needed.items(), there, strict=True):
        if found is None or found < least:
            yield SuspectObject("vector-gone" if found is None else "vector-short", key, key, least, None, found)


def _files(state: LogState, listed: ListedFiles, there: Any) -> Iterator[SuspectObject]:
    keys, paths, said = (whole(state.files, name) for name in ("key", "path", "size"))
    if there.null_count:  # some writers do not escape the names of their objects
        there = pc.coalesce(there, listed.sizes_of(paths))
    if not there.null_count and there.equals(said):
        return
    places = pc.indices_nonzero(pc.fill_null(pc.not_equal(there, said), True))
    columns = (column.take(places).to_pylist() for column in (keys, paths, said, there))
    for key, path, size, found in zip(*columns, strict=True):
        if _leads_out(key, path, state.location) is None:
            kind, most = ("hollow", size) if found is None else ("size-differs", _NO_SIZE if size is None else size)
            yield SuspectObject(kind, key, path, size or 0, most, found)


def of_suspects(found: Sequence[SuspectObject], live: int) -> Iterator[Note]:
    """One note for each kind: a table that lost its directory has as many suspects as files."""
    for kind, several in grouped(found, lambda each: each.kind).items():
        examples = "; ".join(_said(each) for each in several[:_EXAMPLES])
        more = f"; and {len(several) - _EXAMPLES} more of {live} live files" if len(several) > _EXAMPLES else ""
        yield Note(kind, f"{examples}{more}")


def _said(suspect: SuspectObject) -> str:
    if suspect.found is None:
        return f"{suspect.key} is missing"
    if suspect.kind == "size-differs":
        said = "nothing of them" if suspect.most == _NO_SIZE else suspect.most
        return f"{suspect.key} has {suspect.found} bytes, and the log says {said}"
    return f"{suspect.key} has {suspect.found} bytes instead of {suspect.least} at least"


def of_live(state: LogState, sizes: Any) -> Iterator[Note]:
    """Live files that contradict each other, their own paths or the table's directory. `sizes`: as of `suspects`."""
    yield from _duplicates(whole(state.files, "key"))
    yield from _outside(state, sizes)
    if state.metadata.partition_columns and state.files.num_rows and not no_columns(state.metadata):
        yield from _odd_values(state)


def _duplicates(keys: Any) -> Iterator[Note]:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    several: Any = counts.filter(pc.greater(counts.field("counts"), 1))
    first = several[0].as_py()
    more = f"; {len(several)} such files" if len(several) > 1 else ""
    yield Note("duplicate-live-path", f"{first['values']} is live {first['counts']} times, with different vectors{more}")


def _outside(state: LogState, there: Any) -> Iterator[Note]:
    keys, paths = whole(state.files, "key"), whole(state.files, "path")
    plain = matching(keys, PLAIN)
    if plain.true_count == len(keys) and not there.null_count:
        return
    places = pc.indices_nonzero(pc.or_(pc.invert(plain), pc.is_null(there)))  # behind a link that leads out, nothing is listed
    pairs = zip(keys.take(places).to_pylist(), paths.take(places).to_pylist(), strict=True)
    found = [(path, said) for key, path in pairs if (said := _leads_out(key, path, state.location))]
    yield from _outside_notes(found)


def _outside_notes(found: Sequence[tuple[str, str]]) -> Iterator[Note]:
    """An absolute path to another place is how a shallow clone names the files of its source ("Add File and Remove File"): that
    is no damage, and they are not looked at. No writer leaves the table by steps upwards."""
    for away in (True, False):
        several = [said for path, said in found if (_ABSOLUTE.match(path) is not None) is away]
        if several:
            more = f"; {len(several)} such files" if len(several) > 1 else ""
            yield Note("outside-path", f"{several[0].removeprefix('outside-path: ')}{more}", damaging=not away)


def _leads_out(key: str, path: str, location: Location) -> str | None:
    try:
        check_inside(key, path, location.uri)
    except OutsideTable as error:
        return error.message
    return None


def is_elsewhere(vector: Vector) -> bool:
    """Whether it has an absolute path that is not understood here, and so none inside of the table."""
    return vector.storage_type == "p" and _WITHOUT_SLASH.match(vector.path_or_inline_dv) is not None


def of_vectors(state: LogState) -> tuple[list[Note], dict[str, int]]:
    """What the log alone shows to be wrong with deletion vectors; and how many bytes each file has at least that holds some."""
    column, needed, wrong = whole(state.files, "deletionVector"), dict[str, int](), dict[str, str]()
    outside, left = list[tuple[str, str]](), _MOST_INLINE
    files = state.files.filter(column.is_valid()) if column.null_count < len(column) else NO_FILES
    for vector, key, stats in zip(vectors_of(files), *(files.column(each).to_pylist() for each in ("key", "stats")), strict=True):
        if vector is None:
            continue
        text = vector.path_or_inline_dv
        left -= len(text) if vector.storage_type == "i" else 0
        try:
            if is_elsewhere(vector):
                raise OutsideTable(f"a deletion vector is stored elsewhere: {text[:200]}")
            place = vector_key(vector, state.location)
            said = _SAID_ROWS.match(stats or "")
            _check_vector(vector, str(key), int(said[1]) if said else None, state.location if left >= 0 else None)
        except OutsideTable as error:
            outside.append((text, error.message))
        except (Unsupported, Corrupt) as error:
            kind = "vector-short" if isinstance(error, Corrupt) else "unknown-storage-type"
            wrong.setdefault(kind, error.message.removeprefix(f"{kind}: "))
        else:
            if place is not None:
                needed[place] = max(needed.get(place, 0), (vector.offset or 0) + vector.size_in_bytes + _AROUND)
    return [*_outside_notes(outside), *(Note(kind, detail) for kind, detail in wrong.items())], needed


def _check_vector(vector: Vector, key: str, rows: int | None, decoded: Location | None) -> None:
    """Looks at a vector of a file with so many rows. One in the log is decoded, if the table is named.

    Raises:
        Corrupt, Unsupported: it has numbers that none has, or, in the log itself, other rows than the log says.
    """
    offset, size, count = vector.offset, vector.size_in_bytes, vector.cardinality
    in_log = vector.storage_type == "i"
    has_place = in_log or offset is None or 0 < offset <= _MOST_NUMBER
    if not has_place or not 0 <= size <= _MOST_NUMBER or count < 0 or (count and not size):
        raise Corrupt(f"the deletion vector of {key} has an impossible place: offset {offset}, {size} bytes, {count} rows")
    if rows is not None and rows < count:
        raise Corrupt(f"the deletion vector of {key} deletes {count} rows, of {rows} that the file has")
    if in_log and count and decoded is not None:
        store = open_store(decoded)
        if rows is None or rows > _MOST_MASK:
            bitmap_of(vector, store, decoded)
        else:
            mask_of(vector, rows, store, decoded)


def _odd_values(state: LogState) -> Iterator[Note]:
    """Only files of which the log has no value, or one that is not of its column's type, can be wrong so: they are few."""
    values, columns = whole(state.files, "partitionValues"), partition_columns(state.metadata)
    odd = []
    for name, kind in columns.items():
        found = pc.map_lookup(values, query_key=name, occurrence="first")
        fits = pc.match_substring_regex(found, _SPELLINGS[kind]) if kind in _SPELLINGS else pc.not_equal(found, "")
        odd.append(pc.invert(pc.fill_null(fits, False)))
    places = pc.indices_nonzero(reduce(pc.or_, odd))
    keys, said = whole(state.files, "key").take(places).to_pylist(), values.take(places).to_pylist(maps_as_pydicts="lossy")
    wrong = [text for key, value in zip(keys, said, strict=True) if (text := _odd_value(str(key), value or {}, columns))]
    if wrong:
        more = f"; {len(wrong)} such files" if len(wrong) > 1 else ""
        yield Note("partition-value-nulled", f"{wrong[0]}{more}")


def partition_columns(metadata: Metadata) -> dict[str, str]:
    """Their types by their names in the log and in paths: those that a mapping gives them."""
    found = {str(field.get("name")).casefold(): field for field in _fields(schema_of(metadata))}
    columns = ((name, found.get(name.casefold()) or {}) for name in metadata.partition_columns)
    return {str((field.get("metadata") or {}).get(_PHYSICAL) or name): str(field.get("type")) for name, field in columns}


def _odd_value(key: str, said: Mapping[str, str | None], columns: Mapping[str, str]) -> str:
    """What is wrong with the values of a file: one that its path has, one that the log does not mention, or that says nothing."""
    there = {name.casefold(): value for name, value in said.items()}
    parts = (part.partition("=") for part in key.split("/")[:-1] if "=" in part)
    stated = {unquote(name) for name, _, value in parts if value not in ("", _NULL)}
    for name, kind in columns.items():
        value = there.get(name.casefold())
        if value and kind in _SPELLINGS and not re.match(_SPELLINGS[kind], value):
            return f"{key} has the value {value[:100]!r} of {name} in the log, which is no {kind}"
        if not value and (name in stated or name.casefold() not in there):
            return f"{key} has no value of {name} in the log"
    return ""


def column_names(metadata: Metadata) -> list[str]:
    """Of the columns, in their order."""
    return [str(field.get("name")) for field in _fields(schema_of(metadata))]


def of_schema(metadata: Metadata) -> Iterator[Note]:
    """A schema that is no JSON, or has unknown types. Columns, or fields of one, whose names differ by case alone: Delta
    compares names without it, so Spark opens no such table.

    Names of files are not compared: a partition for `B` and one for `b` are two directories wherever tables are stored.
    """
    schema = schema_of(metadata)
    if metadata.schema_string and schema is None:
        yield Note("torn-commit", f"the schema of the table is cut off or no JSON: {metadata.schema_string[:100]!r}")
    if (mode := metadata.property("delta.columnMapping.mode")).lower() not in ("", "none", "id", "name"):
        yield Note("unknown-feature", f"the column mapping {mode[:100]}")
    for kind in _types(schema, 0):
        for names in grouped((str(field.get("name")) for field in _fields(kind)), str.casefold).values():
            if len(names) > 1:
                yield Note("case-clash", f"the columns {' and '.join(names)} differ by the case of their letters alone")
        if isinstance(kind, str) and kind != "variant" and plain_type(kind) is None:
            yield Note("unknown-feature", f"the type {kind[:100]}")


def no_columns(metadata: Metadata) -> str:
    """Why rows cannot be read; empty where the schema does not keep from it."""
    names = {name.casefold() for name in column_names(metadata)}
    missing = [name for name in metadata.partition_columns if name.casefold() not in names]
    return "the table has no schema" if not names else f"it is partitioned by {missing[0]}, which is no column" if missing else ""


def schema_of(metadata: Metadata) -> object:
    """None where there is none, or no JSON."""
    try:
        return msgspec.json.decode(metadata.schema_string or "null")
    except (msgspec.DecodeError, RecursionError):
        return None


def _fields(kind: object) -> list[dict[str, Any]]:
    fields = kind.get("fields") if isinstance(kind, dict) else None
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _types(kind: object, depth: int) -> Iterator[object]:
    """A type and all within it."""
    yield kind
    if isinstance(kind, dict) and depth <= _DEEPEST:
        parts = (kind.get(part) for part in ("elementType", "keyType", "valueType", "sqlType"))
        for inner in (*(field.get("type") for field in _fields(kind)), *parts):
            yield from _types(inner, depth + 1)


# What only the files themselves show: bytes that changed without a change of size.

_AT_ONCE = 16
_BATCH = 10_000
_MOST_ROWS = 1 << 31


def of_contents(state: LogState, listed: ListedFiles) -> Iterator[Note]:
    """Reads the footer of each live file that has the size of the log, and its vector: a request or two, and one."""
    store = open_store(state.location)
    wrong: dict[str, list[str]] = {}
    with COMPUTING.let_go(), Threads(_AT_ONCE) as threads:
        for batch in state.files.to_batches(max_chunksize=_BATCH):
            table = pa.Table.from_batches([batch])
            sizes = listed.sizes_of(table.column("key")).to_pylist()
            names = zip(*(table.column(name).to_pylist() for name in ("key", "path", "stats")), strict=True)
            files = zip(names, sizes, vectors_of(table), strict=True)
            for kind, detail in threads.map(lambda each: _look(store, state, *each), files):
                if kind:
                    wrong.setdefault(kind, []).append(detail)
    for kind, details in wrong.items():
        more = f"; and {len(details) - _EXAMPLES} more" if len(details) > _EXAMPLES else ""
        yield Note(kind, f"{'; '.join(details[:_EXAMPLES])}{more}")


def _look(
    store: ObjectStore, state: LogState, names: tuple[str, str, str | None], size: int | None, vector: Vector | None
) -> tuple[str, str]:
    """The kind and the detail of what is wrong; empty where nothing is, or where the listing showed it."""
    key, path, stats = names
    if size is None:
        return "", ""
    try:
        check_inside(key, path, state.location.uri)
        rows = read_footer(store, key, size).num_rows
    except (Missing, OutsideTable):
        return "", ""
    except (Corrupt, Unsupported) as error:
        return "size-differs", f"{key} has the size that the log says, and other bytes: {error.message}"
    said = whole_number(said_ends(stats).rows)
    if said is not None and said != rows:
        return "size-differs", f"{key} has the size that the log says, and {rows} rows instead of {said}"
    return ("", "") if vector is None or is_elsewhere(vector) else _look_at_vector(store, state, key, rows, vector)


def _look_at_vector(store: ObjectStore, state: LogState, key: str, rows: int, vector: Vector) -> tuple[str, str]:
    if rows > _MOST_ROWS:
        return "", ""
    try:
        mask_of(vector, rows, store, state.location)
    except OutsideTable:
        return "", ""
    except (Corrupt, Unsupported) as error:
        kind, _, detail = error.message.partition(": ")
        return (kind, detail) if kind.startswith(("vector-", "unknown-")) else ("vector-short", f"of {key}: {error.message}")
    return "", ""
