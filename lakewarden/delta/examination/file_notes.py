"""What is wrong with the live files of a version, by its log and a listing of the table.

Files stay Arrow columns; an object of Python's is made for what is suspect, and for vectors once for each file that holds some.
Most tables are small and sound, and each call of Arrow takes some 10 µs: so the fewest calls that prove a table sound come first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.base.threads import Threads
from lakewarden.delta.examination.listing import ListedFiles
from lakewarden.delta.parquet.reading import read_footer
from lakewarden.delta.parquet.said_bounds import said_ends, whole_number
from lakewarden.delta.replay.actions import Metadata, Vector
from lakewarden.delta.replay.live_files import pc, vectors_of, whole
from lakewarden.delta.replay.log_state import LogState, Note
from lakewarden.delta.replay.paths import PLAIN, OutsideTable, check_inside
from lakewarden.delta.replay.vectors import check_inline, mask_of, vector_key
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_PHYSICAL = "delta.columnMapping.physicalName"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_WITHOUT_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!/)")
_AROUND = 8
"""Bytes of a vector's size before it and of its checksum behind it ("Deletion Vector File Storage Format")."""

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


def suspects(state: LogState, listed: ListedFiles) -> list[SuspectObject]:
    """Files and vectors that are missing by the listing, or have another size."""
    return [*_files(state, listed), *_vectors(state, listed)]


def _files(state: LogState, listed: ListedFiles) -> Iterator[SuspectObject]:
    keys, paths, said = (whole(state.files, name) for name in ("key", "path", "size"))
    there = listed.sizes_of(keys)
    if there.null_count:  # some writers do not escape the names of their objects
        there = pc.coalesce(there, listed.sizes_of(paths))
    if not there.null_count and there.equals(said):
        return
    odd = pc.or_kleene(pc.is_null(there), pc.fill_null(pc.not_equal(there, said), False))
    places = pc.indices_nonzero(odd)
    columns = (column.take(places).to_pylist() for column in (keys, paths, said, there))
    for key, path, size, found in zip(*columns, strict=True):
        if _leads_out(key, path, state.location) is None:
            yield SuspectObject("hollow" if found is None else "size-differs", key, path, size or 0, size, found)


def _vectors(state: LogState, listed: ListedFiles) -> Iterator[SuspectObject]:
    needed: dict[str, int] = {}
    for vector in _distinct_vectors(state):
        try:
            key = None if is_elsewhere(vector) else vector_key(vector, state.location)
        except (Unsupported, Corrupt):
            continue  # `of_live` says so
        if key is not None:
            needed[key] = max(needed.get(key, 0), (vector.offset or 0) + vector.size_in_bytes + _AROUND)
    there = listed.sizes_of(pa.array(needed.keys(), pa.string())).to_pylist() if needed else []
    for (key, least), found in zip(needed.items(), there, strict=True):
        if found is None or found < least:
            yield SuspectObject("vector-gone" if found is None else "vector-short", key, key, least, None, found)


def of_suspects(found: Sequence[SuspectObject], live: int) -> Iterator[Note]:
    """One note for each kind: a table that lost its directory has as many suspects as files."""
    by_kind: dict[str, list[SuspectObject]] = {}
    for each in found:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, several in by_kind.items():
        examples = "; ".join(_said(each) for each in several[:_EXAMPLES])
        more = f"; and {len(several) - _EXAMPLES} more of {live} live files" if len(several) > _EXAMPLES else ""
        yield Note(kind, f"{examples}{more}")


def _said(suspect: SuspectObject) -> str:
    match suspect.kind:
        case "hollow" | "vector-gone":
            return f"{suspect.key} is missing"
        case "size-differs":
            return f"{suspect.key} has {suspect.found} bytes, and the log says {suspect.most}"
    return f"{suspect.key} has {suspect.found} bytes instead of {suspect.least} at least"


def of_live(state: LogState, listed: ListedFiles) -> Iterator[Note]:
    """Live files that contradict each other, their own paths or the table's directory; vectors that can't be found."""
    yield from _duplicates(whole(state.files, "key"))
    yield from _outside(state, listed)
    yield from _odd_vectors(state)
    if state.metadata.partition_columns:
        yield from _nulled_values(state)


def _duplicates(keys: Any) -> Iterator[Note]:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    several: Any = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(several):
        first = several[0].as_py()
        more = f"; {len(several)} such files" if len(several) > 1 else ""
        detail = f"{first['values']} is live {first['counts']} times, with different vectors{more}"
        yield Note("duplicate-live-path", detail)


def _outside(state: LogState, listed: ListedFiles) -> Iterator[Note]:
    keys, paths = whole(state.files, "key"), whole(state.files, "path")
    plain, there = pc.match_substring_regex(keys, PLAIN), listed.sizes_of(keys)
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


def _odd_vectors(state: LogState) -> Iterator[Note]:
    outside: list[tuple[str, str]] = []
    said: dict[str, str] = {}
    for vector in _distinct_vectors(state):
        if is_elsewhere(vector):
            outside.append((vector.path_or_inline_dv, f"a deletion vector is stored elsewhere: {vector.path_or_inline_dv[:200]}"))
            continue
        try:
            if vector_key(vector, state.location) is None:
                check_inline(vector)
        except OutsideTable as error:
            outside.append((vector.path_or_inline_dv, error.message))
        except Unsupported as error:
            said.setdefault("unknown-storage-type", error.message.removeprefix("unknown-storage-type: "))
        except Corrupt as error:
            said.setdefault("vector-short", error.message)
    yield from _outside_notes(outside)
    yield from (Note(kind, detail) for kind, detail in said.items())


def is_elsewhere(vector: Vector) -> bool:
    """Whether it has an absolute path that is not understood here, and so none inside of the table."""
    return vector.storage_type == "p" and _WITHOUT_SLASH.match(vector.path_or_inline_dv) is not None


def _distinct_vectors(state: LogState) -> list[Vector]:
    """Of each file that holds vectors, the one that ends last."""
    column = whole(state.files, "deletionVector")
    if column.null_count == len(column):
        return []
    vectors = column.drop_null()
    names = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
    table = pa.table({name: vectors.field(name) for name in names})
    ends = pc.add(pc.fill_null(table.column("offset"), 0), table.column("sizeInBytes"))
    last = (
        table.append_column("end", ends)
        .group_by(["storageType", "pathOrInlineDv"], use_threads=False)
        .aggregate([("end", "max")])
    )
    rows = zip(*(last.column(name).to_pylist() for name in ("storageType", "pathOrInlineDv", "end_max")), strict=True)
    return [Vector(kind, text, end or 0, 0) for kind, text, end in rows]


def _nulled_values(state: LogState) -> Iterator[Note]:
    """Only files of which the log has a NULL can be wrong so: they are few, or their paths say it too."""
    values, names = whole(state.files, "partitionValues"), stored_names(state.metadata)
    lookups = (pc.map_lookup(values, query_key=name, occurrence="first") for name in names)
    empty = [pc.fill_null(pc.equal(found, ""), True) for found in lookups]
    places = pc.indices_nonzero(reduce(pc.or_, empty))
    keys, said = whole(state.files, "key").take(places).to_pylist(), values.take(places).to_pylist(maps_as_pydicts="lossy")
    pairs = ((key, value) for key, value in zip(keys, said, strict=True) if value is not None)
    found = [(key, lost) for key, value in pairs if (lost := _nulled(str(key), value, names))]
    if found:
        more = f"; {len(found)} such files" if len(found) > 1 else ""
        yield Note("partition-value-nulled", f"{found[0][0]} has no value of {found[0][1]} in the log{more}")


def stored_names(metadata: Metadata) -> list[str]:
    """The partition columns by their names in the log and in paths: those that a mapping gives them."""
    fields = _fields(_schema(metadata))
    mapped = {field.get("name"): (field.get("metadata") or {}).get(_PHYSICAL) for field in fields}
    return [str(mapped.get(name) or name) for name in metadata.partition_columns]


def _nulled(key: str, said: Mapping[str, str | None], names: Collection[str]) -> str:
    """The partition column of which the path has a value and the log has none."""
    parts = (part.partition("=") for part in key.split("/")[:-1] if "=" in part)
    stated = ((unquote(name), value) for name, _, value in parts if value not in ("", _NULL))
    return next((name for name, _ in stated if name in names and not said.get(name)), "")


def case_clashes(metadata: Metadata) -> Iterator[Note]:
    """Columns, or fields of one, whose names differ by case alone: Delta compares names without it, so Spark opens no such table.

    Names of files are not compared: a partition for `B` and one for `b` are two directories wherever tables are stored.
    """
    for names in _clashing(_schema(metadata), 0):
        yield Note("case-clash", f"the columns {' and '.join(names)} differ by the case of their letters alone")


def no_columns(metadata: Metadata) -> str:
    """Why rows cannot be read; empty where the schema does not keep from it."""
    names = {str(field.get("name")).casefold() for field in _fields(_schema(metadata))}
    missing = [name for name in metadata.partition_columns if name.casefold() not in names]
    return "the table has no schema" if not names else f"it is partitioned by {missing[0]}, which is no column" if missing else ""


def _schema(metadata: Metadata) -> object:
    """None where there is none, or no JSON."""
    try:
        return msgspec.json.decode(metadata.schema_string or "null")
    except (msgspec.DecodeError, RecursionError):
        return None


def _fields(kind: object) -> list[dict[str, Any]]:
    fields = kind.get("fields") if isinstance(kind, dict) else None
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _clashing(kind: object, depth: int) -> Iterator[list[str]]:
    if not isinstance(kind, dict) or depth > _DEEPEST:
        return
    folded: dict[str, list[str]] = {}
    for field in _fields(kind):
        name = str(field.get("name"))
        folded.setdefault(name.casefold(), []).append(name)
        yield from _clashing(field.get("type"), depth + 1)
    yield from (names for names in folded.values() if len(names) > 1)
    for part in ("elementType", "keyType", "valueType"):
        yield from _clashing(kind.get(part), depth + 1)


# What only the files themselves show: bytes that changed without a change of size.

_AT_ONCE = 16
_BATCH = 10_000
_MOST_ROWS = 1 << 31


def of_contents(state: LogState, listed: ListedFiles) -> Iterator[Note]:
    """Reads the footer of each live file that has the size of the log, and its vector: a request or two, and one."""
    store = open_store(state.location)
    wrong: dict[str, list[str]] = {}
    with Threads(_AT_ONCE) as threads:
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
        return (kind, detail) if kind.startswith("vector-") else ("vector-short", f"of {key}: {error.message}")
    return "", ""
