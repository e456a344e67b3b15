"""The columns of the relations that are served: those that clients ask for, with the types that a query may rely on."""

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
pg_tables schemaname:text tablename:text tableowner:text tablespace:text hasindexes:bool hasrules:bool hastriggers:bool
  rowsecurity:bool
pg_views schemaname:text viewname:text viewowner:text definition:text
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
information_schema.schemata catalog_name:text schema_name:text schema_owner:text
information_schema.tables table_catalog:text table_schema:text table_name:text table_type:text is_insertable_into:text
information_schema.columns table_catalog:text table_schema:text table_name:text column_name:text ordinal_position:int
  column_default:text is_nullable:text data_type:text character_maximum_length:int numeric_precision:int numeric_scale:int
  datetime_precision:int udt_catalog:text udt_schema:text udt_name:text is_identity:text is_generated:text is_updatable:text
information_schema.views table_catalog:text table_schema:text table_name:text view_definition:text
information_schema.table_constraints constraint_catalog:text constraint_schema:text constraint_name:text table_catalog:text
  table_schema:text table_name:text constraint_type:text
information_schema.key_column_usage constraint_catalog:text constraint_schema:text constraint_name:text table_catalog:text
  table_schema:text table_name:text column_name:text ordinal_position:int
information_schema.referential_constraints constraint_catalog:text constraint_schema:text constraint_name:text
  unique_constraint_schema:text unique_constraint_name:text
information_schema.constraint_column_usage table_schema:text table_name:text column_name:text constraint_schema:text
  constraint_name:text
information_schema.routines routine_catalog:text routine_schema:text routine_name:text routine_type:text data_type:text
information_schema.sequences sequence_catalog:text sequence_schema:text sequence_name:text
visible oid:oid
index_columns oid:oid n:int name:text
"""


def _read(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in text.replace("\n  ", " ").strip().splitlines():
        name, *columns = line.split()
        found[name] = dict(column.split(":") for column in columns)
    return found


SHAPES: Mapping[str, Mapping[str, str]] = _read(_SHAPES)
"""By name; of `pg_catalog` unless it says another schema. The last two are our own, for functions."""


def made(name: str, rows: Iterable[Row]) -> pa.Table:
    """The relation of these rows."""
    shape, found = SHAPES[name], list(rows)
    columns = {
        column: pa.array([row.get(column, _MISSING.get(kind)) for row in found], _TYPES[kind]) for column, kind in shape.items()
    }
    return pa.table(columns)
