"""A process that writes to random tenants until a file appears, and keeps a journal of what was acknowledged.

    python -m tests.restarts.writer WAREHOUSE JOURNAL STOP SEED FIRST LAST [once]

`once` writes one row to each tenant instead.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from random import Random

from lakewarden.client import Lakehouse

TABLE = "app.notes"
KEYS = 20
"""Rows of a tenant: small numbers, so that rows are replaced, too."""

_BATCH = 100
_PAUSE = 0.2


def tenant(number: int) -> str:
    return f"t_{number:05d}"


def main(warehouse: str, journal: str, stop: str, seed: str, first: str, last: str, *once: str) -> None:
    random, everyone = Random(int(seed)), range(int(first), int(last))
    with Lakehouse.open(warehouse) as lake, Path(journal).open("a") as kept:
        table = lake.table(TABLE)
        for number in itertools.count():
            tenants = everyone if once else random.sample(everyone, min(_BATCH, len(everyone)))
            rows = [{"user": tenant(one), "id": random.randrange(KEYS), "content": f"{seed}-{number}"} for one in tenants]
            table.write(rows, user_column="user")
            kept.write(json.dumps(rows) + "\n")
            if once or Path(stop).exists():
                return
            time.sleep(_PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
