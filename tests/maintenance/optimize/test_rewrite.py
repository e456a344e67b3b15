"""The commit of a rewrite, where its answer is lost."""

from __future__ import annotations

from pathlib import Path

from lakewarden.base.faults import no_faults
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.delta.parquet.files import write_files
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.maintenance.rewrite import Rewrite, land
from lakewarden.storage.steps import alone
from tests.delta.scopes import at, paths, people, rows_of, table_of, target
from tests.maintenance.steps import batches, data_files, later


def test_a_commit_whose_answer_was_lost_is_found_and_not_discarded(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    batches(scope, 3)
    table = table_of(scope)
    (output,) = write_files(scope, FileGroup.of(table, table.files(), scope.schemas).read(), lambda: "compact-1.parquet")
    rewrite = Rewrite(scope, table, table.files(), (output,), CommitStamp("CO-1", "COMPACT"), later()())
    change = CommitChange(rewrite.stamp, adds=(output,), removes=table.files(), data_change=False)
    alone(table.commit(change, schemas=scope.schemas, **at()))
    landed = alone(land(rewrite, lambda _: "the tail moved", later(), no_faults))
    assert isinstance(landed, Snapshot)
    assert (landed.version, len(data_files(scope))) == (3, 4)
    assert paths(scope) == {"compact-1.parquet"}
    assert rows_of(scope) == people(*range(6))
