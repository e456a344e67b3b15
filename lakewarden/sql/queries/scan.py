"""Reads the rows of one relation, as far as a query needs them: of a table, or of the namespace `system`.

Those of `system` are read-only, as of the time of the query (kalamdb.md 3.1, 3.2). The gate lets only dba and system read them.
They contain no secrets: they show that a hash, an identity or a credential exists, and never its value.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa

from lakewarden.base.clock import to_millis
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.settings import described_settings
from lakewarden.catalog.kept_settings import KEPT
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.passwords import REDACTED
from lakewarden.catalog.state.job import Job, this_node
from lakewarden.catalog.state.processes import LiveQueries, Processes
from lakewarden.delta.manifest import shown_manifest
from lakewarden.errors import NotFound, StorageRefused, StorageUnavailable
from lakewarden.maintenance.open_table import open_table
from lakewarden.maintenance.planning.pending import pending_in
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.sql.context import Context
from lakewarden.sql.queries.pushdown import Pushdown
from lakewarden.sql.query_engine.engine import for_duck
from lakewarden.sql.relations import SYSTEM, Relation
from lakewarden.sql.results import Row, listing
from lakewarden.sql.session_table import reader_in
from lakewarden.sql.system_listings import LISTINGS, MOMENT, WHOLE, SystemListing, name_row, texts
from lakewarden.tables.strong_read import PastScope, ReadSelection
from lakewarden.tables.warehouse import cold_tables, find_table, live_tables


# The activity in a warehouse as rows of `system.*`: jobs, the audit log, manifests, figures, settings.
def _jobs(context: Context) -> Iterator[Row]:
    most = context.warehouse.settings.jobs.max_retries
    for job in context.services.operator().jobs.newest(None):
        yield asdict(job) | {"parameters": json.dumps(job.parameters), "max_retries": most}


def _manifest(context: Context) -> Iterator[Row]:
    """The manifest.json of every scope that has one, and whether rows are pending. The first flush creates a scope's manifest.
    Whether a scope on a storage that is away has one is not known."""
    warehouse = context.warehouse
    catalog = context.catalog
    waiting = dict.fromkeys(pending.scope for pending in pending_in(context.warehouse))
    for table in cold_tables(catalog):
        mine = (scope for scope in waiting if scope.table == table.name)
        for scope in dict.fromkeys((*scopes_of(warehouse, table, None), *mine)):
            try:
                text = shown_manifest(warehouse.target(catalog, scope).location)
            except (StorageUnavailable, StorageRefused):
                yield _manifest_row(scope, None, "error")
                continue
            if text is not None or scope in waiting:
                yield _manifest_row(scope, text, "pending_write" if scope in waiting else "in_sync")


def _manifest_row(scope: Scope, text: str | None, state: str) -> Row:
    owner = scope.user or "shared"
    return name_row(scope.table) | {
        "cache_key": f"{scope.table.namespace}:{scope.table.name}:{owner}",
        "scope": owner,
        "sync_state": state,
        "manifest_json": text,
    }


def _live(context: Context) -> Iterator[Row]:
    for query in LiveQueries(context.warehouse.state).there(context.warehouse.clock()):
        options = {} if query.from_seq is None else {"from_seq_id": query.from_seq}
        row: Row = {"user_id": query.user or None, "options": json.dumps(options), "status": "active"}
        yield asdict(query) | name_row(TableName.parse(query.table)) | row


def _stats(context: Context) -> Iterator[Row]:
    catalog = context.catalog
    waiting = pending_in(context.warehouse)
    figures = {
        "namespaces": len(catalog.namespaces),
        "tables": len(live_tables(catalog)),
        "views": len(catalog.views),
        "storages": len(catalog.storages),
        "users": sum(user.deleted_at is None for user in catalog.users.values()),
        "pending_scopes": len(waiting),
        "pending_rows": int(waiting.rows.sum()),
        "pending_bytes": int(waiting.bytes.sum()),
    }
    counts = Counter(job.status for job in context.services.operator().jobs.newest(None))
    figures |= {f"jobs_{status}": count for status, count in sorted(counts.items())}
    return ({"metric_name": name, "metric_value": value} for name, value in figures.items())


def _sessions(context: Context) -> Iterator[Row]:
    for one in context.services.sessions.now():
        row: Row = {"role": one.role, "actor_user_id": one.actor, "namespace_id": one.namespace, "opened_at": one.opened_at}
        yield _session_row(one.number, one.user) | row


def _session_row(number: int, user: str) -> Row:
    return {"session_id": f"{this_node()}:{number}", "user_id": user, "node_id": this_node()}


def _cluster(context: Context) -> Iterator[Row]:
    """The processes that note themselves, and those that run jobs, by the jobs' heartbeats."""
    warehouse, jobs = context.warehouse, defaultdict[str, list[Job]](list)
    for job in context.services.operator().jobs.running():
        jobs[job.node_id or ""].append(job)
    for one in Processes(warehouse.state).alive(warehouse.clock()):
        doing = "; ".join([one.doing, *map(_doing, jobs.pop(one.node_id, ()))])
        yield asdict(one) | _machine(one.node_id) | {"doing": doing}
    for node, mine in jobs.items():
        since, seen = min(job.started_at or job.created_at for job in mine), max(job.updated_at or job.created_at for job in mine)
        work: Row = {"node_id": node, "kind": "job", "doing": "; ".join(map(_doing, mine)), "since": since, "last_seen": seen}
        yield work | _machine(node)


def _machine(node: str) -> Row:
    host, _, process = node.rpartition(":")
    return {"host": host, "process_id": int(process) if process.isdigit() else None}


def _doing(job: Job) -> str:
    """Without its user."""
    return f"{job.job_type} {job.parameters.get('tables', '')} ({job.job_id})"


def _transactions(context: Context) -> Iterator[Row]:
    """The blocks of the sessions of this process."""
    for one in context.services.sessions.now():
        if (block := one.block) is not None:
            place: Row = {} if block.table is None else name_row(block.table) | {"scope": block.user or "shared"}
            yield (
                _session_row(one.number, one.user)
                | place
                | {
                    "transaction_id": f"{this_node()}:{one.number}:{to_millis(block.started_at)}",
                    "status": "failed" if block.failed else "open",
                    "started_at": block.started_at,
                    "rows": block.rows,
                    "bytes": block.bytes,
                }
            )


def _settings(context: Context) -> Iterator[Row]:
    settings, kept = context.warehouse.settings, context.warehouse.kept_settings(context.catalog)
    for described in described_settings():
        name = f"{described.section}.{described.key}"
        value = kept.value(name) if name in KEPT else getattr(getattr(settings, described.section), described.key)
        yield {
            "name": name,
            "value": _told(value),
            "description": described.description,
            "category": described.section,
        }


def _told(value: object) -> str | None:
    """A dictionary is free text, such as Spark's settings, and may hold a secret: only its keys are shown."""
    if isinstance(value, dict):
        return json.dumps(dict.fromkeys(value, REDACTED))
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


_JOB = texts(
    "job_id", "job_type", "status", "parameters", "message", "exception_trace", "idempotency_key", "node_id", "request_id"
)
_MOMENTS = dict.fromkeys(("created_at", "updated_at", "started_at", "finished_at"), MOMENT)
_LIVE = texts("live_id", "namespace_id", "table_name", "user_id", "query", "options", "status") | {
    "created_at": MOMENT,
    "last_ping_at": MOMENT,
    "changes": WHOLE,
}
_SESSION = texts("session_id", "user_id", "role", "actor_user_id", "namespace_id", "node_id")
_TRANSACTION = texts(*("transaction_id", "session_id", "user_id", "status", "node_id", "namespace_id", "table_name", "scope"))
_PROCESS = ("node_id", "host", "kind", "version", "doing")
_AUDIT = texts("actor_user_id", "action", "target", "details", "subject_user_id", "request_id")

ACTIVITY: dict[str, SystemListing] = {
    "jobs": SystemListing(_JOB | {"retry_count": WHOLE, "max_retries": WHOLE} | _MOMENTS, _jobs),
    "audit_log": SystemListing(
        texts("audit_id") | {"timestamp": MOMENT} | _AUDIT, lambda context: map(asdict, context.door.audit.newest())
    ),
    "manifest": SystemListing(
        texts("cache_key", "namespace_id", "table_name", "scope", "sync_state", "manifest_json"), _manifest
    ),
    "live": SystemListing(_LIVE, _live),
    "sessions": SystemListing(_SESSION | {"opened_at": MOMENT}, _sessions),
    "cluster": SystemListing(texts(*_PROCESS) | {"process_id": WHOLE, "since": MOMENT, "last_seen": MOMENT}, _cluster),
    "transactions": SystemListing(_TRANSACTION | {"started_at": MOMENT, "rows": WHOLE, "bytes": WHOLE}, _transactions),
    "stats": SystemListing(texts("metric_name") | {"metric_value": WHOLE}, _stats),
    "settings": SystemListing(texts("name", "value", "description", "category"), _settings),
}
"""By the name in `system`."""

RELATIONS: dict[str, SystemListing] = LISTINGS | ACTIVITY


def relation_named(name: str) -> SystemListing:
    """Raises NotFound: the relation does not exist."""
    found = RELATIONS.get(name.lower())
    if found is None:
        raise NotFound(f"there is no relation system.{name}; there are {', '.join(sorted(RELATIONS))}")
    return found


def relation(context: Context, name: TableName, pushdown: Pushdown, read: pa.Table | None) -> pa.Table:
    if name.namespace == SYSTEM:
        found = relation_named(name.name)
        return listing(found.columns, list(found.rows(context))).table
    if (held := context.temporary_table(name)) is not None:
        return for_duck(held.rows.select(pushdown.columns), held.table.schema)
    table = find_table(context.catalog, name)
    if read is None:
        read = scanned(context, table, pushdown.selection)
    return for_duck(read.select(pushdown.columns), table.schema)


def scanned(context: Context, table: Table, wanted: ReadSelection, catalog: Catalog | None = None) -> pa.Table:
    """The session's rows of a table, those of its block among them; some outside the bounds, too. `catalog` as in
    `TableReader.scan`.
    """
    owner = context.owner(table)
    make, warehouse = reader_in(context.block, table.name, owner), context.services.warehouse
    return make(warehouse, table, warehouse.log(table)).scan(wanted, owner, context.freshness, catalog)


def past(context: Context, relation: Relation) -> PastScope:
    """Finds the version of a table's past that a query reads. Raises as `TableReader.past`."""
    assert relation.as_of is not None, "only versions of a table have a past"
    table = find_table(context.catalog, relation.table)
    return open_table(context.warehouse, table).reader.past(relation.as_of, context.owner(table))


def past_relation(scope: PastScope, pushdown: Pushdown) -> pa.Table:
    rows = scope.rows(pushdown.selection)
    return for_duck(rows.select(pushdown.columns), scope.schema)
