"""Before rows leave the log: the files that hold them are there, as long as their commit says.

What this process wrote itself, and was acknowledged, needs no look. Who finds that another commit has settled rows that the log
still holds does not know what became of that commit's files: a power cut may have kept the commit and torn what it names,
a stray rm may have taken it. So those are looked at: by a stat on a disk, by a request each on an object store.
"""

from __future__ import annotations

from urllib.parse import unquote

from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.place import place_of
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt


def check_settled(table: ScopeTable, first_seq: int) -> None:
    """To be asked where the table is said to hold rows of the log from `first_seq` on.

    Raises:
        Corrupt: a file that may hold some of them is missing, or has another size.
        Conflict: the table moved on meanwhile, and does not need that file any more.
    """
    place = place_of(table.location)
    for file in table.files():
        if "://" in file.path or (file.max_seq is not None and file.max_seq < first_seq):
            continue
        if not place.is_whole(unquote(file.path), file.size):
            if CommitLog(place).has(table.version + 1):
                raise Conflict(f"{table.uri} was committed to while its files were looked at; try again")
            raise Corrupt(
                f"{table.uri}: the file {file.path}, which version {table.version} needs, is missing or has not its {file.size}"
                " bytes: rows that a flush took from the write log are not in the table, and stay in the log; lakewarden repair"
                " brings them back"
            )
