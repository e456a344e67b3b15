"""Tags of runs: what people search by, and what the sensors and the queue's limits read.

The page of runs has a line for each tag of a run, save for those that begin with `.dagster/`: a run has at most two others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import dagster as dg

from lakewarden.storage.paths import encode

OPERATION = ".dagster/lakewarden_operation"
"""Its job or assets, which the pages show, say it to people."""

TABLE = "lakewarden/table"
"""The table of a run that has only one."""

OF_TABLES = ".dagster/lakewarden_table."
"""Before a table's name: a run over several tables has such a tag for each, with the value `yes`, since a tag has one value."""

USER = "lakewarden/user"
"""The user of a run that has only one, encoded as in paths: any text is a user's id, and the pages split tags at `=`."""

SCOPES = ".dagster/lakewarden_scopes"
"""The number of scopes of a run that names them."""

SCOPE = ".dagster/lakewarden_scope"
"""The scope of a run that has only one: the queue runs one run of a scope at a time (dagster.yaml)."""

QUEUED_BEHIND = "lakewarden/queued_behind"
"""On a run that waits or waited in the queue: the runs that held its slots."""

OBJECTS = ".dagster/lakewarden_objects"
"""The number of objects of an ingest that names them."""

SEEN_UNTIL = ".dagster/lakewarden_seen_until"
"""On a run that the flush sensor requested: the log's time up to which the sensor had seen the scopes' rows."""

SLOT = ".dagster/lakewarden_slot"
"""Which slots of the queue a run needs: dagster.yaml limits the runs of each value."""

SPARK = "spark"
"""One JVM at a time."""
LIGHT = "light"
"""Work in the run's own process: it does not wait behind a JVM."""


def job_tags(operation: str, priority: int, slot: str = LIGHT) -> dict[str, str]:
    """The tags of a job's runs.

    Args:
        priority: in the queue; 20 where a user waits, 10 where rows do, 0 and below for maintenance.
        slot: `SPARK` where it may need a JVM: over many scopes, or over a large one. A run of few may be tagged `LIGHT` instead.
    """
    return {OPERATION: operation, SLOT: slot, "dagster/priority": str(priority)}


_TABLES_TAGGED = 20
_TAG_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""What Dagster takes behind the slash of a tag's key."""


def subject_tags(config: Mapping[str, object]) -> dict[str, str]:
    """The tags that say which tables and scopes a run is for, from the config of its op, in whichever of its fields."""
    tables, users = tables_in(config), _users_in(config)
    several = [name for name in sorted(tables)[:_TABLES_TAGGED] if _TAG_NAME.fullmatch(name)]
    exact = config.get("scopes")
    return {
        **({TABLE: tables.copy().pop()} if len(tables) == 1 else {OF_TABLES + name: "yes" for name in several}),
        **({USER: encode(users.copy().pop(), folds_case=False)} if len(users) == 1 else {}),
        **({SCOPES: str(_count(exact))} if isinstance(exact, Mapping) and exact else {}),
    }


def tables_in(config: Mapping[str, object]) -> set[str]:
    """The names of the tables in an op's config."""
    named = {str(name) for field in ("tables", "scopes") if isinstance(names := config.get(field), Iterable) for name in names}
    one = config.get("table")
    return named | ({str(one)} if one else set())


def _users_in(config: Mapping[str, object]) -> set[str]:
    one, scopes = config.get("user"), config.get("scopes")
    exact = {user for users in scopes.values() for user in users} if isinstance(scopes, Mapping) else set()
    return exact | ({str(one)} if one else set())


def _count(scopes: Mapping[str, object]) -> int:
    return sum(max(len(users), 1) for users in scopes.values() if isinstance(users, list))


def tag_run(context: dg.OpExecutionContext, tags: Mapping[str, str]) -> None:
    """Adds the tags that the run does not have yet: one that a person launched has only its job's."""
    missing = {key: value for key, value in tags.items() if context.run.tags.get(key) != value}
    if missing:
        context.instance.add_run_tags(context.run_id, missing)
