"""The rows of statements that start operations, and those about jobs, plans and exports."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.sql.grammar import places, upkeep
from lakewarden.sql.results import ResultRows, StartedJobs, StatementDone
from lakewarden.sql.specs.spec import (
    AuditEntrySpec,
    Grammar,
    InWarehouse,
    Requirement,
    ScopesRight,
    StatementSpec,
    operation_right,
)
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.upkeep import (
    ApplyPlan,
    ExportUserData,
    KillJob,
    KillLiveQuery,
    MoveTable,
    Optimize,
    Restore,
    StorageJob,
    Vacuum,
)


def _cold(what: str) -> Requirement:
    return Requirement("cold tier", what)


_STORAGE: Mapping[str, Grammar] = {"STORAGE": places.storage}
_KILL: Mapping[str, Grammar] = {"KILL": upkeep.kill}


UPKEEP: Mapping[type[Statement], StatementSpec] = {
    StorageJob: StatementSpec(
        "STORAGE FLUSH or COMPACT TABLE n.t or ALL [IN NAMESPACE n] [RATIO n] [LOOK] [WITH (option = value, …)] [DRY RUN]",
        "flushes or compacts tables, as jobs",
        _STORAGE,
        "job",
        "operate.storage_job",
        StartedJobs | StatementDone | ResultRows,
        requires=_cold("flushes and compactions"),
    ),
    MoveTable: StatementSpec(
        "STORAGE MOVE TABLE n.t TO s [DRY RUN] or CANCEL",
        "moves a table to another storage, as a job",
        _STORAGE,
        operation_right("move"),
        "operate.move_table",
        StartedJobs | StatementDone | ResultRows,
        requires=_cold("moves between storages"),
        audited=AuditEntrySpec("MOVE_TABLE", "table", "table"),
    ),
    Optimize: StatementSpec(
        "OPTIMIZE t [WHERE condition on partition columns] [ZORDER BY (…)] [LOOK] [WITH (option = value, …)] [FOR ALL USERS]"
        " [DRY RUN]",
        "packs or sorts files",
        {"OPTIMIZE": upkeep.optimize},
        ScopesRight("optimize"),
        "operate.optimize",
        StatementDone | ResultRows,
        requires=_cold("OPTIMIZE"),
    ),
    Vacuum: StatementSpec(
        "VACUUM t [RETAIN n HOURS [FORCE]] [LOOK] [WITH (option = value, …)] [FOR ALL USERS] [DRY RUN]",
        "removes files that no kept version needs",
        {"VACUUM": upkeep.vacuum},
        ScopesRight("vacuum"),
        "operate.vacuum",
        StatementDone | ResultRows,
        requires=_cold("VACUUM"),
    ),
    Restore: StatementSpec(
        "RESTORE [TABLE] t TO VERSION AS OF n or TIMESTAMP AS OF '…' [WITH (option = value, …)] [FOR ALL USERS] [DRY RUN]",
        "goes back to a version",
        {"RESTORE": upkeep.restore},
        ScopesRight("restore"),
        "operate.restore",
        StatementDone | ResultRows,
        requires=_cold("RESTORE"),
    ),
    ApplyPlan: StatementSpec(
        "APPLY PLAN 'id'",
        "does what a dry run planned",
        {"APPLY": upkeep.apply},
        "plan",
        "operate.apply_plan",
        StatementDone,
        audited=AuditEntrySpec("APPLY_PLAN", "plan"),
    ),
    KillJob: StatementSpec(
        "KILL JOB 'id'",
        "ends a job",
        _KILL,
        InWarehouse("kill jobs"),
        "operate.kill_job",
        StatementDone,
        audited=AuditEntrySpec("KILL_JOB", "job"),
    ),
    KillLiveQuery: StatementSpec(
        "KILL LIVE QUERY 'id'",
        "ends a subscription",
        _KILL,
        InWarehouse("kill jobs"),
        "operate.kill_live_query",
        StatementDone,
        audited=AuditEntrySpec("KILL_LIVE_QUERY", "live"),
    ),
    ExportUserData: StatementSpec(
        "EXPORT USER DATA",
        "exports all that the session's user has, as a job",
        {"EXPORT": upkeep.export},
        InWarehouse("export their own data"),
        "operate.export_user_data",
        StartedJobs | StatementDone,
    ),
}
