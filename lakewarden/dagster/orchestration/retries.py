"""Lets Dagster retry the first failure that a new storage sees, too.

Dagster's daemon retries the runs whose failure it reads after its cursor in the event log, and a daemon without a cursor begins
at the log's end. When the first daemon of a storage was killed before it kept its cursor, the next one may fail a lost run before
it begins to read: nothing would retry that run, ever.
"""

from __future__ import annotations

import dagster as dg

# Private, but their own: a key of ours would be another one as soon as Dagster renames its own.
from dagster._daemon.auto_run_reexecution.event_log_consumer import DAGSTER_EVENT_TYPES, _create_cursor_key


def begin_reading(instance: dg.DagsterInstance) -> None:
    """Keeps a cursor at the end of the event log for each kind of event that has none. What fails from now on is seen."""
    keys = {_create_cursor_key(kind) for kind in DAGSTER_EVENT_TYPES}
    missing = keys - instance.daemon_cursor_storage.get_cursor_values(keys).keys()
    if missing:
        end = instance.event_log_storage.get_maximum_record_id() or 0
        instance.daemon_cursor_storage.set_cursor_values(dict.fromkeys(missing, str(end)))
