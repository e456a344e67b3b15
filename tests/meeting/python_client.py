"""A client in Python that writes until it is killed. Its journal says what it means to do, and what was done.

python -m tests.meeting.python_client WAREHOUSE JOURNAL NUMBER SEED
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import IO

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError, Transient
from lakewarden.sql.results import ResultRows
from tests.meeting.writes import TABLE, Write, first_id, known_rows

_BATCH = 3
_PAUSE = 0.2


def writes_of(journal: Path) -> Iterator[Write]:
    """In their order. A write whose end is not in the journal is unknown."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {line["done"] for line in lines if "done" in line}
    for line in lines:
        for key, value in line.get("rows", ()):
            yield Write(key, value, line["number"] in done)


def main(warehouse: str, journal: str, client: str, seed: str) -> None:
    path = Path(journal)
    writes = [*writes_of(path)]
    lines = len(path.read_text().splitlines()) if path.exists() else 0
    new_ids = itertools.count(max((write.id for write in writes), default=first_id(int(client))) + 1)
    chance = Random(f"{seed}-{lines}")
    with Lakehouse.open(warehouse) as lake, path.open("a") as kept:
        for number in itertools.count(lines):
            rows = _next(chance, writes, new_ids)
            _keep(kept, {"number": number, "rows": rows})
            done = _is_done(lake, rows)
            if done:
                _keep(kept, {"done": number})
            writes.extend(Write(key, value, done) for key, value in rows)
            time.sleep(_PAUSE)


def _next(chance: Random, writes: Sequence[Write], new_ids: Iterator[int]) -> list[tuple[int, int | None]]:
    """New rows; or a row that is there for certain, one higher or deleted."""
    certain = [(key, known[0]) for key, known in known_rows(writes).items() if len(known) == 1 and known[0] is not None]
    if not certain or chance.random() < 0.4:
        return [(next(new_ids), chance.randrange(1000) << 20) for _ in range(_BATCH)]
    key, value = chance.choice(certain)
    return [(key, value + 1 if chance.random() < 0.8 else None)]


def _is_done(lake: Lakehouse, rows: list[tuple[int, int | None]]) -> bool:
    """Whether it was; what was refused counts as unknown.

    Raises:
        LakewardenError: one that does not go away.
        AssertionError: a strong read behind the write does not have it.
    """
    try:
        _write(lake, rows)
    except LakewardenError as error:
        if isinstance(error, Transient):
            return False
        raise
    key, value = rows[0]
    [found] = lake.sql(f"SELECT value FROM {TABLE} WHERE id = {key}")
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == ([] if value is None else [{"value": value}]), (key, value, found.to_pylist())
    return True


def _write(lake: Lakehouse, rows: list[tuple[int, int | None]]) -> None:
    (key, value), *others = rows
    if others:
        lake.table(TABLE).write([{"id": key, "value": value} for key, value in rows])
    elif value is None:
        lake.sql(f"DELETE FROM {TABLE} WHERE id = {key}")
    else:
        lake.sql(f"UPDATE {TABLE} SET value = value + 1 WHERE id = {key}")


def _keep(kept: IO[str], line: object) -> None:
    """A process that is killed loses nothing of what it wrote so."""
    kept.write(json.dumps(line) + "\n")
    kept.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
