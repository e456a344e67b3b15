"""Pipelines and their rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableOf
from lakewarden.catalog.changes.pipelines import pipelines_in, rule_of, status_of
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.pipelines.create import edit_rule, make_pipeline, remove_pipeline
from lakewarden.ingest.pipelines.source import source_uri
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs, Ref
from lakewarden.sql.results import ResultRows, Row, StatementDone, listing
from lakewarden.sql.rights import Ask, Made, Right, creation_right, in_warehouse
from lakewarden.sql.statement import AuditEntrySpec, Grammar, ListStatement, Statement, StatementSpec, TableCreation, registered
from lakewarden.sql.statements.clauses import if_exists, options_of
from lakewarden.sql.system_listings import FLAG, MOMENT, WHOLE, name_row, texts


@dataclass(frozen=True)
class CreateFromTemplate(TableCreation):
    """CREATE SHARED TABLE … FROM TEMPLATE: the template owns the schema. A list among the options is the text of a JSON list."""

    template: str
    options: Pairs = ()
    if_not_exists: bool = False

    @property
    def type(self) -> str:
        return "SHARED"


@dataclass(frozen=True)
class DropPipeline(Statement):
    pipeline: str
    if_exists: bool = False


@dataclass(frozen=True)
class AlterRule(Statement):
    rule: str
    changes: Pairs


@dataclass(frozen=True)
class ShowRules(ListStatement):
    namespace: str | None = None


@dataclass(frozen=True)
class ShowPipelines(ListStatement):
    namespace: str | None = None


def from_template(read: StatementReader, table: Ref, kind: str | None, *, missing: bool) -> Statement:
    """Reads what follows the name of the table and FROM TEMPLATE."""
    if kind not in (None, "SHARED"):
        raise InvalidArgument(f"{table}: a template fills SHARED tables, and this is a {kind} table")
    template = read.name_or_text("a template")
    clauses: list[tuple[str, str]] = []
    if read.word("PRIMARY", "KEY"):
        clauses.append(("PRIMARY_KEY", _names(read)))
    if read.word("PARTITION", "BY") or read.word("PARTITIONED", "BY"):
        clauses.append(("PARTITION_BY", _names(read)))
    options = _settings(read) if read.word("WITH") else ()
    return CreateFromTemplate(table, template.lower(), (*clauses, *options), missing)


def read_alter_rule(read: StatementReader) -> Statement:
    """Reads what follows ALTER RULE: `r SET GLOBS = ('**/*.csv'), ENABLED = false`, in brackets or without."""
    rule = read.name_or_text("a rule")
    read.expect("SET")
    if read._match(TokenType.L_PAREN, advance=False):
        return AlterRule(rule, _settings(read))
    changes = [_setting(read)]
    while read.symbol(TokenType.COMMA):
        changes.append(_setting(read))
    return AlterRule(rule, tuple(changes))


def _settings(read: StatementReader) -> Pairs:
    return tuple(read.listed(partial(_setting, read), none=True))


def _setting(read: StatementReader) -> tuple[str, str]:
    key = read.name_or_text("an option")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {key}")
    if read.word("ARRAY") or read._match(TokenType.L_BRACKET, advance=False):
        return key, _listed(read, TokenType.L_BRACKET, TokenType.R_BRACKET)
    if read._match(TokenType.L_PAREN, advance=False):
        return key, _listed(read, TokenType.L_PAREN, TokenType.R_PAREN)
    if read.at_text:
        return key, read.text("a value")
    return key, read.value_of(key)


def _names(read: StatementReader) -> str:
    return json.dumps(read.listed(read.column))


def _listed(read: StatementReader, opens: TokenType, closes: TokenType) -> str:
    """A list of names, texts, numbers and truth values, each as its text; as JSON."""
    if not read.symbol(opens):
        raise read.failure("expected a list")
    found: list[str] = []
    while not read.symbol(closes):
        if found and not read.symbol(TokenType.COMMA):
            raise read.failure("expected , or the end of the list")
        found.append(_entry(read))
    return json.dumps(found)


def _entry(read: StatementReader) -> str:
    if any(read._match(kind, advance=False) for kind in _VALUES):
        return read.value_of("the list")
    return read.name_or_text("a text, a name, a number or a truth value")


_VALUES = (TokenType.NUMBER, TokenType.DASH, TokenType.TRUE, TokenType.FALSE)


def create_from_template(context: Context, statement: CreateFromTemplate) -> StatementDone:
    name = context.named(statement.table)
    if statement.if_not_exists and (name in context.catalog.tables or name in context.catalog.blanks):
        return StatementDone(f"table {name} already exists")
    pipeline = make_pipeline(context.warehouse, name, statement.template, options_of(statement.options))
    place = source_uri(context.warehouse, pipeline)
    return StatementDone(f"table {name} created; its schema comes with the first object of {place} (lakewarden ingest {name})")


def drop_pipeline(context: Context, statement: DropPipeline) -> StatementDone:
    if statement.if_exists and statement.pipeline not in context.catalog.pipelines:
        return StatementDone(f"skipped: there is no pipeline {statement.pipeline}")
    remove_pipeline(context.warehouse, statement.pipeline)
    return StatementDone(f"pipeline {statement.pipeline} dropped")


def alter_rule(context: Context, statement: AlterRule) -> StatementDone:
    edit_rule(context.warehouse, statement.rule, options_of(statement.changes))
    return StatementDone(f"rule {statement.rule} altered")


def show_rules(context: Context, statement: ShowRules) -> ResultRows:
    columns = texts("rule_id", "pipeline_id", "namespace_id", "table_name", "globs", "excludes", "mime_types")
    columns |= {"min_size": WHOLE, "max_size": WHOLE, "enabled": FLAG, "created_at": MOMENT, "updated_at": MOMENT}
    rows: list[Row] = []
    for pipeline in pipelines_in(context.catalog, statement.namespace):
        rule = rule_of(context.catalog, pipeline)
        lists = {"globs": rule.globs, "excludes": rule.excludes, "mime_types": rule.mime_types}
        rows.append(
            asdict(rule)
            | name_row(pipeline.table)
            | {"rule_id": rule.id, "pipeline_id": pipeline.id}
            | {name: json.dumps(values) for name, values in lists.items()}
        )
    return listing(columns, rows)


def show_pipelines(context: Context, statement: ShowPipelines) -> ResultRows:
    columns = texts("pipeline_id", "namespace_id", "table_name", "template", "source", "options", "primary_key", "partition_by")
    columns |= texts("missing_columns", "rule_id", "status") | {"created_at": MOMENT}
    rows: list[Row] = [
        asdict(one)
        | name_row(one.table)
        | {
            "pipeline_id": one.id,
            "source": source_uri(context.warehouse, one),
            "primary_key": json.dumps(one.primary_key),
            "partition_by": json.dumps(one.partition_by),
            "rule_id": rule_of(context.catalog, one).id,
            "status": status_of(context.catalog, one),
        }
        for one in pipelines_in(context.catalog, statement.namespace)
    ]
    return listing(columns, rows)


def _asks_of_pipeline(context: Context, statement: AlterRule | DropPipeline, _: Made) -> Iterator[Ask]:
    catalog = context.catalog
    if isinstance(statement, AlterRule):
        rule = catalog.rules.get(statement.rule)
        found = None if rule is None else catalog.pipelines[rule.pipeline_id]
    else:
        found = catalog.pipelines.get(statement.pipeline)
    name = TableName("", "") if found is None else found.table
    yield Ask("alter" if isinstance(statement, AlterRule) else "drop", TableOf(name, "SHARED"))


_OF_A_PIPELINE = Right(_asks_of_pipeline, "`alter` or `drop` its table")

ROWS = registered(
    StatementSpec(
        "CREATE SHARED TABLE [IF NOT EXISTS] t FROM TEMPLATE name [PRIMARY KEY (…)] [PARTITION BY (…)] [WITH (KEY = value, …)]",
        "creates a table that uploaded objects fill, and give its schema",
        creation_right(),
        create_from_template,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
        begins="CREATE TABLE",
    ),
    StatementSpec(
        "DROP PIPELINE [IF EXISTS] p",
        "removes a pipeline, its rule, and the record of what it took; its table stays",
        _OF_A_PIPELINE,
        drop_pipeline,
        audited=AuditEntrySpec("DROP_PIPELINE", "pipeline", "pipeline"),
    ),
    StatementSpec(
        "ALTER RULE r SET GLOBS = ('…', …), EXCLUDES = (…), MIME_TYPES = (…), MIN_SIZE = n, MAX_SIZE = n,"
        " ENABLED = true or false",
        "changes which objects a pipeline takes",
        _OF_A_PIPELINE,
        alter_rule,
        audited=AuditEntrySpec("ALTER_RULE", "rule", "rule"),
    ),
    StatementSpec(
        "SHOW RULES [IN n]",
        "lists the rules of pipelines",
        in_warehouse("look at what exists"),
        show_rules,
    ),
    StatementSpec(
        "SHOW PIPELINES [IN n]",
        "lists pipelines, with the place where objects are uploaded",
        in_warehouse("look at what exists"),
        show_pipelines,
    ),
)

GRAMMARS: Mapping[str, Grammar] = {
    "ALTER RULE": read_alter_rule,
    "DROP PIPELINE": lambda read: DropPipeline(if_exists=if_exists(read), pipeline=read.name_or_text("a pipeline")),
}
