"""What a statement means for the block around it."""

from __future__ import annotations

from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.definitions import (
    CreateTemporaryTable,
    DescribeExtended,
    DropTemporaryTable,
    ShowEngines,
    ShowPipelines,
    ShowRules,
    ShowSettings,
    UseNamespace,
)
from lakewarden.sql.statements.others import ExecuteAs
from lakewarden.sql.statements.rows import Delete, Explain, Insert, Merge, Overwrite, Query, Subscribe, Truncate, Update
from lakewarden.sql.statements.session import (
    BlockStatement,
    Describe,
    DescribeHistory,
    SetFreshness,
    SetMetadata,
    SetTableStorage,
    Show,
    ShowMetadata,
    ShowStats,
    ShowTables,
)

LISTS = (
    *(Explain, Show, ShowTables, ShowStats, ShowEngines, ShowMetadata, ShowRules, ShowPipelines, ShowSettings),
    *(Describe, DescribeHistory, DescribeExtended),
)
"""What has no effect, and answers with few rows."""

_OF_THE_SESSION = (UseNamespace, SetFreshness, SetMetadata, SetTableStorage, CreateTemporaryTable, DropTemporaryTable)
_WRITES_ROWS = (Insert, Overwrite, Update, Delete, Truncate, Merge)


def innermost(statement: Statement) -> Statement:
    return innermost(statement.statement) if isinstance(statement, ExecuteAs) else statement


def changes_nothing(statement: Statement) -> bool:
    """Whether it leaves the warehouse as it is."""
    return isinstance(innermost(statement), (Query, Subscribe, *LISTS, *_OF_THE_SESSION, BlockStatement))


def words_of(statement: Statement) -> str:
    """The words that it begins with, for messages."""
    from lakewarden.sql.specs.statements import STATEMENTS  # whose grammars are needed by no rule here

    return next(iter(STATEMENTS[type(innermost(statement))].begins))


def takes_effect_at_once(statement: Statement) -> bool:
    """Whether it changes something that no ROLLBACK undoes."""
    return not (changes_nothing(statement) or isinstance(innermost(statement), _WRITES_ROWS))
