"""The columns of the relations that are served: which clients ask for, with the types that queries may rely on; and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

Row = Mapping[str, object]

_TYPES: Mapping[str, pa.DataType] = {
    "oid": pa.int64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "int": pa.int32(),
    "float": pa.float32(),
    "oids": pa.list_(pa.int64()),
    "ints": pa.list_(pa.int16()),
    "texts": pa.list_(pa.string()),
    "keys": pa.list_(pa.struct([("x", pa.int16()), ("n", pa.int32())])),
}
_MISSING: Mapping[str, object] = {"oid": 0, "bool": False, "int": 0, "float": 0.0}
"""What a column is where a row does not name it; else NULL."""

_SHAPES = """
pg_class oid:oid relname:text relnamespace:oid reltype:oid reloftype:oid relowner:oid relam:oid relfilenode:oid reltablespace:oid
  relpages:int reltuples:float relallvisible:int reltoastrelid:oid relhasindex:bool relisshared:bool relpersistence:text
  relkind:text relnatts:int relchecks:int relhasrules:bool relhastriggers:bool relhassubclass:bool relrowsecurity:bool
  relforcerowsecurity:bool relispopulated:bool relreplident:text relispartition:bool relrewrite:oid relacl:texts reloptions:texts
  relpartbound:text relhasoids:bool
pg_namespace oid:oid nspname:text nspowner:oid nspacl:texts
pg_attribute attrelid:oid attname:text atttypid:oid attlen:int attnum:int attndims:int atttypmod:int attbyval:bool attalign:text
  attstorage:text attcompression:text attnotnull:bool
  atthasdef:bool atthasmissing:bool attidentity:text attgenerated:text attisdropped:bool
  attislocal:bool attinhcount:int attcollation:oid attstattarget:int attacl:texts attoptions:texts attfdwoptions:texts
pg_attrdef oid:oid adrelid:oid adnum:int adbin:text
pg_index indexrelid:oid indrelid:oid indnatts:int indnkeyatts:int indisunique:bool indnullsnotdistinct:bool indisprimary:bool
  indisexclusion:bool indimmediate:bool indisclustered:bool indisvalid:bool indisready:bool indislive:bool indisreplident:bool
  indkey:ints indcollation:oids indclass:oids indoption:ints indexprs:text indpred:text expanded:keys
pg_constraint oid:oid conname:text connamespace:oid contype:text condeferrable:bool condeferred:bool convalidated:bool
  conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid confupdtype:text confdeltype:text confmatchtype:text
  conislocal:bool coninhcount:int connoinherit:bool conkey:ints confkey:ints conbin:text definition:text
pg_type oid:oid typname:text typnamespace:oid typowner:oid typlen:int typbyval:bool typtype:text typcategory:text
  typispreferred:bool typisdefined:bool typdelim:text typrelid:oid typelem:oid typarray:oid typinput:text typoutput:text
  typreceive:text typsend:text typnotnull:bool typbasetype:oid typtypmod:int typndims:int typcollation:oid typdefault:text
pg_database oid:oid datname:text datdba:oid encoding:int datcollate:text datctype:text datistemplate:bool datallowconn:bool
  daticulocale:text datlocprovider:text datconnlimit:int
  dattablespace:oid datacl:texts
pg_roles oid:oid rolname:text rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool
  rolreplication:bool rolconnlimit:int rolpassword:text rolvaliduntil:text rolbypassrls:bool rolconfig:texts
pg_user usename:text usesysid:oid usecreatedb:bool usesuper:bool
pg_am oid:oid amname:text amhandler:text amtype:text
pg_matviews schemaname:text matviewname:text matviewowner:text definition:text
pg_settings name:text setting:text unit:text category:text short_desc:text
pg_description objoid:oid classoid:oid objsubid:int description:text
pg_shdescription objoid:oid classoid:oid description:text
pg_collation oid:oid collname:text collnamespace:oid
pg_sequence seqrelid:oid seqtypid:oid seqstart:oid seqincrement:oid seqmax:oid seqmin:oid seqcache:oid seqcycle:bool
pg_enum oid:oid enumtypid:oid enumsortorder:float enumlabel:text
pg_range rngtypid:oid rngsubtype:oid rngmultitypid:oid
pg_proc oid:oid proname:text pronamespace:oid proowner:oid prolang:oid prokind:text prorettype:oid proargtypes:oids prosrc:text
  proretset:bool provolatile:text proacl:texts
pg_trigger oid:oid tgrelid:oid tgname:text tgfoid:oid tgtype:int tgenabled:text tgisinternal:bool tgconstraint:oid tgparentid:oid
  tgdeferrable:bool tginitdeferred:bool tgnargs:int
pg_rewrite oid:oid rulename:text ev_class:oid ev_type:text ev_enabled:text is_instead:bool
pg_inherits inhrelid:oid inhparent:oid inhseqno:int inhdetachpending:bool
pg_partitioned_table partrelid:oid partstrat:text partnatts:int partdefid:oid
pg_policy oid:oid polname:text polrelid:oid polcmd:text polpermissive:bool polroles:oids polqual:text polwithcheck:text
pg_statistic_ext oid:oid stxrelid:oid stxname:text stxnamespace:oid stxowner:oid stxstattarget:int stxkeys:ints stxkind:texts
pg_publication oid:oid pubname:text pubowner:oid puballtables:bool pubinsert:bool pubupdate:bool pubdelete:bool pubtruncate:bool
pg_publication_rel oid:oid prpubid:oid prrelid:oid prqual:text prattrs:ints
pg_publication_namespace oid:oid pnpubid:oid pnnspid:oid
pg_foreign_table ftrelid:oid ftserver:oid ftoptions:texts
pg_foreign_server oid:oid srvname:text srvowner:oid srvfdw:oid srvoptions:texts
pg_foreign_data_wrapper oid:oid fdwname:text fdwowner:oid
pg_auth_members roleid:oid member:oid grantor:oid admin_option:bool
pg_depend classid:oid objid:oid objsubid:int refclassid:oid refobjid:oid refobjsubid:int deptype:text
pg_opclass oid:oid opcname:text opcdefault:bool opcmethod:oid
pg_extension oid:oid extname:text extowner:oid extnamespace:oid extversion:text
pg_language oid:oid lanname:text
pg_tablespace oid:oid spcname:text spcowner:oid
information_schema.referential_constraints constraint_catalog:text constraint_schema:text constraint_name:text
  unique_constraint_schema:text unique_constraint_name:text
information_schema.constraint_column_usage table_schema:text table_name:text column_name:text constraint_schema:text
  constraint_name:text
information_schema.routines routine_catalog:text routine_schema:text routine_name:text routine_type:text data_type:text
information_schema.sequences sequence_catalog:text sequence_schema:text sequence_name:text
index_columns oid:oid n:int name:text
"""


def _read(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in text.replace("\n  ", " ").strip().splitlines():
        name, *columns = line.split()
        found[name] = dict(column.split(":") for column in columns)
    return found


SHAPES: Mapping[str, Mapping[str, str]] = _read(_SHAPES)
"""By name; of `pg_catalog` unless it says another schema. The last one is our own, for a function."""


OURS = "lakewarden"
"""The schema of views for other views alone."""

VIEWS: Mapping[str, str] = {
    "lakewarden.tables": """SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, c.*
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname <> 'pg_catalog' AND c.relkind IN ('r', 'v')""",
    "lakewarden.keys": """SELECT t.table_catalog AS constraint_catalog, t.table_schema AS constraint_schema,
        k.conname AS constraint_name, t.table_catalog, t.table_schema, t.table_name, k.conindid
        FROM pg_constraint k JOIN lakewarden.tables t ON t.oid = k.conrelid""",
    "pg_tables": """SELECT table_schema AS schemaname, table_name AS tablename, pg_get_userbyid(relowner) AS tableowner,
        NULL::text AS tablespace, relhasindex AS hasindexes, relhasrules AS hasrules, relhastriggers AS hastriggers,
        relrowsecurity AS rowsecurity FROM lakewarden.tables WHERE relkind = 'r'""",
    "pg_views": """SELECT table_schema AS schemaname, table_name AS viewname, pg_get_userbyid(relowner) AS viewowner,
        NULL::text AS definition FROM lakewarden.tables WHERE relkind = 'v'""",
    "information_schema.schemata": """SELECT current_database() AS catalog_name, nspname AS schema_name,
        pg_get_userbyid(nspowner) AS schema_owner FROM pg_namespace""",
    "information_schema.tables": """SELECT table_catalog, table_schema, table_name,
        CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
        CASE relkind WHEN 'v' THEN 'NO' ELSE 'YES' END AS is_insertable_into FROM lakewarden.tables""",
    "information_schema.columns": """SELECT c.table_catalog, c.table_schema, c.table_name, a.attname AS column_name,
        a.attnum AS ordinal_position, d.adbin AS column_default, CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
        format_type(a.atttypid, NULL) AS data_type, NULL::int AS character_maximum_length,
        CASE WHEN a.atttypmod > 0 THEN (a.atttypmod - 4) >> 16 END AS numeric_precision,
        CASE WHEN a.atttypmod > 0 THEN (a.atttypmod - 4) & 65535 END AS numeric_scale,
        CASE WHEN t.typname LIKE 'time%' THEN 6 END AS datetime_precision, c.table_catalog AS udt_catalog,
        'pg_catalog' AS udt_schema, t.typname AS udt_name, 'NO' AS is_identity, 'NEVER' AS is_generated,
        CASE c.relkind WHEN 'v' THEN 'NO' ELSE 'YES' END AS is_updatable
        FROM lakewarden.tables c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        ORDER BY c.table_schema, c.table_name, a.attnum""",
    "information_schema.views": """SELECT table_catalog, table_schema, table_name, NULL::text AS view_definition
        FROM lakewarden.tables WHERE relkind = 'v'""",
    "information_schema.table_constraints": """SELECT * EXCLUDE (conindid), 'PRIMARY KEY' AS constraint_type
        FROM lakewarden.keys""",
    "information_schema.key_column_usage": """SELECT k.* EXCLUDE (conindid), a.attname AS column_name,
        a.attnum AS ordinal_position FROM lakewarden.keys k JOIN pg_attribute a ON a.attrelid = k.conindid""",
}
"""Queries over the others, in PostgreSQL's words, with the EXCLUDE of DuckDB's."""


def made(name: str, rows: Iterable[Row]) -> pa.Table:
    """The relation of these rows."""
    shape, found = SHAPES[name], list(rows)
    columns = {
        column: pa.array([row.get(column, _MISSING.get(kind)) for row in found], _TYPES[kind]) for column, kind in shape.items()
    }
    return pa.table(columns)
