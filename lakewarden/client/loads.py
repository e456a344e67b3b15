"""`lake.loads`: files of other systems, loaded into tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.catalog.evolution import anew
from lakewarden.client.catalog import CatalogCalls
from lakewarden.client.maintenance import MaintenanceCalls
from lakewarden.client.parts import Noun

if TYPE_CHECKING:
    from lakewarden.ingest.load_run import OnReject
    from lakewarden.ingest.load_sources import LoadReport
    from lakewarden.log.once import Resume
    from lakewarden.tables.client import TableClient


class Loads(Noun):
    """`lake.loads`."""

    @attaches
    def load(
        self,
        table: str,
        paths: str | Sequence[str],
        *,
        format: str | None = None,
        user: str | None = None,
        user_column: str | None = None,
        on_reject: OnReject = "refuse",
        once: str | None = None,
        resume: Resume | None = None,
        metadata: Metadata | None = None,
    ) -> LoadReport:
        """Loads files into a table: CSV with a header, JSON lines, or Parquet; lines also compressed by gzip.

        A SHARED table gets all rows in one Delta commit: appended where it has no primary key, else by key, where a later row of
        the files replaces an earlier one. Rows of users go into the write log: those of one `user` all become visible at once,
        those of a `user_column` in several steps. What a load that was refused, or died, leaves is not visible, and is removed
        in time. By key it can be repeated; without a key too if it has a name (`once`).

        Args:
            paths: files, directories or patterns, on a disk or in a bucket.
            format: `csv`, `json` or `parquet`; by default what the ending of each name says.
            user: whose rows they are (USER and STREAM tables).
            user_column: instead of `user`, the column that names each row's user; it is not stored.
            on_reject: what rows that do not fit do: `refuse` the load when all files are read, `stop` it at the first, or `skip`.
            once: names the load, for a table without a key: repeated under its name, it adds nothing if the table has it.
            resume: where a repair left uncertain whether it has: `repeat` loads, `skip` does not.
            metadata: a JSON object that the commit with the rows will carry.

        Raises:
            NotFound: a path matches no file; or the table does not exist.
            InvalidArgument: a file is empty or unreadable, its columns are not the table's, or an option is wrong.
            RowsRejected: rows do not fit; nothing was loaded.
            PartlyAppended: rows of a `user_column` were written in part; the error names users who have all of theirs.
            Unsupported: `once`, and the table is written by key.
        """
        from lakewarden.ingest.load_run import Load, LoadRequest  # imports Arrow

        named = (paths,) if isinstance(paths, str) else tuple(paths)
        bound = self._parts.warehouse.settings.load.in_process_bytes
        request = LoadRequest(named, format, user, user_column, on_reject, once, resume)

        def loaded() -> tuple[TableClient, LoadReport]:
            client = CatalogCalls(self._parts).table(table)
            return client, Load(client, request, lambda work, items: self._parts.engine.run_large(work, items, bound)).run()

        client, report = anew(loaded)
        if client.table.type != "SHARED" or not client.table.schema.keyed:
            return report
        flushed = next(iter(MaintenanceCalls(self._parts).flush(table)), None)
        if flushed is None:  # the files have no rows, and none is pending
            return report
        if flushed.fault is not None:
            what = f"the {report.rows} rows are in the write log of {table}, and could not be flushed"
            raise flushed.fault.hinders(what)
        return replace(report, version=flushed.version)
