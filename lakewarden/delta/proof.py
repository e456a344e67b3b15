"""Before rows leave the log, checks that the files that hold them exist, with the size that their commit names.

A process need not check acknowledged writes of its own. If another commit has settled rows that the log
still holds, the state of its files is unknown: a power cut may have kept the commit and damaged what it names,
or a user may have deleted them. So those files are checked: by a stat on a disk, by a request each on an object store.
"""

from __future__ import annotations

from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.open import open_store


def check_settled(table: ScopeTable, first_seq: int) -> None:
    """Call this when the table claims to hold rows of the log from `first_seq` on.

    Raises:
        Corrupt: a file that may hold some of them is missing, or has another size.
        Conflict: the table was changed meanwhile, and no longer needs that file.
    """
    store = open_store(table.location)
    for file in table.files():
        if "://" in file.path or (file.max_seq is not None and file.max_seq < first_seq):
            continue
        if not store.is_whole(file.path, file.size):
            if CommitLog(store).has(table.version + 1):
                raise Conflict(f"{table.uri} was committed to while its files were checked; try again")
            raise Corrupt(
                f"{table.uri}: version {table.version} needs the file {file.path}, which is missing or does not have its"
                f" {file.size} bytes: rows that a flush took from the write log are not in the table, and stay in the log;"
                " lakewarden repair brings them back"
            )
