"""A process that writes with tasks of Spark: it does each line that it reads, and says what became of it.

python -m tests.spark.kills.writer <warehouse>
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FederationSettings, FlushSettings, LoadSettings, SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import LakewardenError
from lakewarden.spark.session import start_session

DONE = "done"

_IN_TASKS = Settings(
    flush=FlushSettings(large_scope_bytes=1),
    federation=FederationSettings(min_bytes=0, part_bytes=1 << 14, in_process_below=0),
    load=LoadSettings(in_process_bytes=0, piece_bytes=1 << 12),
)


def main() -> None:
    spark = start_session(SparkSettings())
    with Lakehouse.open(sys.argv[1], settings=_IN_TASKS, spark=lambda: spark) as lake:
        spark.range(2).mapInArrow(lambda batches: batches, "id bigint").collect()  # a first worker
        _say("ready")
        for line in sys.stdin:
            _say(_run(lake, line.strip()))


def _run(lake: Lakehouse, text: str) -> str:
    """What became of a statement of SQL, of `FLUSH table` or another operation, or of `LOAD table file`."""
    word, table, *more = text.split()
    operations: dict[str, Callable[[str], Sequence[ScopeReport]]] = {
        "FLUSH": lake.flush,
        "OPTIMIZE": lake.optimize,
        "COMPACT": lake.compact,
    }
    try:
        if word in operations:
            return next((report.fault.message for report in operations[word](table) if report.fault), DONE)
        if word == "LOAD":
            lake.load(table, more)
        else:
            lake.sql(text)
    except LakewardenError as error:
        return error.message
    return DONE


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # it is read by the test


if __name__ == "__main__":
    main()
