"""The audit log says what was done, the newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from lakewarden.catalog.access import Principal
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.storage.local import LocalObjects


def test_acts_of_one_millisecond_are_in_order(tmp_path: Path) -> None:
    moments = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=each) for each in count())
    names = iter("cab")
    audit = AuditLog(LocalObjects(str(tmp_path)), lambda: next(moments), lambda: next(names))
    for action in ("FIRST", "SECOND", "THIRD"):
        audit.note(Principal("ann"), action, "table:n.t")
    assert [entry.action for entry in audit.newest()] == ["THIRD", "SECOND", "FIRST"]
