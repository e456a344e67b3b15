"""Of rows with the same key, which tasks wrote to data files, the last one stays: a later object or row of the batch wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import random_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile, direct_name, write_files
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import SEQ, read_schema
from lakewarden.delta.reading.keys import Keys
from lakewarden.errors import LakewardenError
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import Run, SizedWork, done_and_failed


@dataclass(frozen=True)
class _Thin:
    """A file, and the `_seq` of rows that leave it. Picklable."""

    file: NewFile
    gone: pa.ChunkedArray[Any]


def each_key_once(run: Run, target: ScopeTarget, files: Sequence[NewFile]) -> tuple[list[NewFile], pa.Table]:
    """Returns the files without rows whose key has a later one, and the keys, which are in memory: only they are read here.

    Raises:
        LakewardenError: a file could not be written; all files are deleted.
    """
    key = list(target.schema.primary_key)
    found = [_read(target, file, [*key, SEQ]) for file in files]
    none = pa.table({field.name: pa.array([], field.type) for field in read_schema(target.schema) if field.name in (*key, SEQ)})
    rows = pa.concat_tables([none.select([*key, SEQ]), *found])
    newest = Keys.newest(rows, key).rows
    if newest.num_rows == rows.num_rows:
        return list(files), rows.select(key)
    stays = newest.column(SEQ)
    gone = [one.column(SEQ).filter(pc.invert(pc.is_in(one.column(SEQ), value_set=stays))) for one in found]
    thin = [SizedWork(_Thin(file, lost), file.size, target.on_disk) for file, lost in zip(files, gone, strict=True) if len(lost)]
    kept = [file for file, lost in zip(files, gone, strict=True) if not len(lost)]
    made, failed = done_and_failed(run(partial(_thinned, target), thin))
    written = [file for one in made for file in one]
    store = open_store(target.location)
    if failed is not None:
        store.delete([file.path for file in (*files, *written)])
        raise failed
    store.delete([one.work.file.path for one in thin])
    return [*kept, *written], newest.select(key)


def _thinned(target: ScopeTarget, thin: _Thin) -> Steps[list[NewFile] | LakewardenError]:
    try:
        made = _without(target, thin)
        yield target.uri
    except LakewardenError as error:
        return error
    return made


def _without(target: ScopeTarget, thin: _Thin) -> list[NewFile]:
    names = [field.name for field in read_schema(target.schema)]
    rows = _read(target, thin.file, names)
    left = rows.filter(pc.invert(pc.is_in(rows.column(SEQ), value_set=thin.gone)))
    return write_files(target, left, partial(direct_name, random_id)) if left.num_rows else []


def _read(target: ScopeTarget, file: NewFile, names: Sequence[str]) -> pa.Table:
    every = read_schema(target.schema)
    opened = open_file(open_store(target.location), file.path, file.partition)
    return opened.read(pa.schema([every.field(name) for name in names]), {})
