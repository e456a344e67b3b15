"""Storages: checks the whole declaration, tries its place, then changes the catalog once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from lakewarden.base.connection import Connection, Location
from lakewarden.catalog.changes import objects as changes
from lakewarden.catalog.model import Catalog, Storage, StorageType
from lakewarden.catalog.names import check_storage_id
from lakewarden.errors import InUse, InvalidArgument, Unsupported
from lakewarden.storage.location import canonical, delta_uri, join, within
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import StorageOwner, check_same, claim, claim_for, naming
from lakewarden.storage.paths import STATE, check_template
from lakewarden.storage.probe import probe
from lakewarden.tables.warehouse import Warehouse

_TYPES: dict[str, StorageType] = {"filesystem": "filesystem", "local": "filesystem", "s3": "s3", "gcs": "gcs", "azure": "azure"}
_SCHEMES: dict[StorageType, tuple[str, ...]] = {
    "filesystem": ("", "file"),
    "s3": ("s3", "s3a", "memory"),  # a store in memory is for tests, and behaves as a bucket does
    "gcs": ("gs",),
    "azure": ("az", "abfs", "abfss"),
}
_CREDENTIALS = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True)
class StorageChange:
    """The changes to a storage; None leaves a field as it is."""

    user_template: str | None = None
    shared_template: str | None = None
    name: str | None = None
    description: str | None = None
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    credentials: str | None = None

    def applied(self, catalog: Catalog, storage_id: str) -> Catalog:
        """Raises:
        NotFound, InvalidArgument, InUse: the storage does not exist, or cannot be changed this way.
        """
        given: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        reached = {name: given.pop(name) for name in vars(Connection()) if name in given}

        def connection(storage: Storage) -> Connection:
            return check_connection(storage.id, storage.type, replace(storage.connection, **reached))

        return changes.alter_storage(catalog, storage_id, connection=connection, **given)


@dataclass(frozen=True)
class StorageDeclaration:
    """A storage as a caller declares it; empty texts mean the defaults."""

    id: str
    type: str
    base: str
    bucket: str = ""
    connection: Connection = field(default_factory=Connection)
    user_template: str = ""
    shared_template: str = ""
    name: str = ""
    description: str = ""


def new_storage(declared: StorageDeclaration, now: datetime) -> Storage:
    """A checked storage that is not created yet.

    Raises:
        InvalidArgument: the id, type, place, connection or a template is invalid.
        Unsupported: a kind of store, or a place, that cannot hold Delta tables.
    """
    check_storage_id(declared.id)
    kind = _kind(declared.type)
    return Storage(
        declared.id,
        kind,
        _place(declared.id, kind, declared.base.strip(), declared.bucket.strip()),
        check_template("USER", declared.user_template),
        check_template("SHARED", declared.shared_template),
        name=declared.name or declared.id,
        description=declared.description,
        created_at=now,
        connection=check_connection(declared.id, kind, declared.connection),
    )


def make_storage(warehouse: Warehouse, storage: Storage) -> Storage:
    """Tries the place, claims it for this warehouse, and creates the storage.

    Raises:
        AlreadyExists, InUse, StorageRefused, StorageUnavailable: nothing was created.
        InvalidArgument: the place belongs to the warehouse itself.
    """
    _check_apart(warehouse, storage)
    changes.add_storage(warehouse.catalog.read(), storage)  # refused before anything is written there
    store = open_store(warehouse.location(storage))
    with naming(warehouse.root(storage)):
        found = replace(storage, folds_case=probe(store, warehouse.new_id))
        identity = claim_for(store, StorageOwner(warehouse.id, warehouse.new_id() if warehouse.identifies else ""))
    found = replace(found, identity=identity if warehouse.identifies else "")
    warehouse.catalog.change(lambda catalog: changes.add_storage(catalog, found))
    return found


def _check_apart(warehouse: Warehouse, storage: Storage) -> None:
    for own, what in ((changes.LOCAL_BASE, "the storage 'local' is"), (STATE, "the warehouse keeps its state")):
        taken = join(warehouse.uri, own)
        if within(storage.base, taken):
            raise InvalidArgument(f"storage {storage.id!r} cannot be at {storage.base}: {what} at {taken}; choose another place")


def change_storage(warehouse: Warehouse, storage_id: str, change: StorageChange) -> Storage:
    """Tries the place as it would be reached, unless only the name or the description changes, and then changes the storage.

    Raises:
        NotFound, InvalidArgument, InUse, StorageRefused, StorageUnavailable: nothing was changed.
    """
    catalog = warehouse.catalog.read()
    wanted, before = change.applied(catalog, storage_id).storages[storage_id], catalog.storages[storage_id]
    store = open_store(warehouse.location(wanted))
    with naming(warehouse.root(wanted)):
        if replace(wanted, name=before.name, description=before.description) != before:
            probe(store, warehouse.new_id)
        if wanted.connection != before.connection:
            check_same(store, StorageOwner(warehouse.id, wanted.identity))
    return warehouse.catalog.change(lambda catalog: change.applied(catalog, storage_id)).storages[storage_id]


def adopt_storage(warehouse: Warehouse, storage_id: str) -> Storage:
    """Marks what is at a storage's place now as the storage, after its disk or bucket was lost or restored without its marker.
    Scopes that lost data stay CORRUPT until they are repaired, erased or dropped.

    Raises:
        NotFound: no such storage.
        Unsupported: the warehouse has no identities.
        InUse: the place has the marker of another storage, or of another warehouse.
        StorageRefused, StorageUnavailable: it can't be written or reached.
    """
    storage = changes.storage_of(warehouse.catalog.read(), storage_id)
    if not storage.identity:
        raise Unsupported(f"storage {storage_id!r} has no identity yet: run lakewarden upgrade, which gives it one")
    store = open_store(warehouse.location(storage))
    wanted = StorageOwner(warehouse.id, storage.identity)
    with naming(warehouse.root(storage)):
        probe(store, warehouse.new_id)
        found = claim(store, wanted)
    if found != wanted:
        whose = "another storage" if found.warehouse == warehouse.id else f"warehouse {found.warehouse}"
        raise InUse(f"{store.uri} has the marker of {whose}: it cannot become the storage {storage_id!r}")
    return storage


def remove_storage(warehouse: Warehouse, storage_id: str) -> None:
    """Raises:
    NotFound, InvalidArgument: it does not exist, or is `local`.
    InUse: tables or users' scopes are on it.
    """
    if storage_id in warehouse.user_storages.used():
        raise InUse(f"cannot drop storage {storage_id!r}: it holds scopes of users whose own storage it was")
    warehouse.catalog.change(lambda catalog: changes.drop_storage(catalog, storage_id))


def check_connection(id: str, type: StorageType, connection: Connection) -> Connection:
    """Returns the connection, its endpoint in one spelling.

    Raises:
        InvalidArgument: a part is invalid, or not for this type. The message never repeats what may be a secret.
    """
    if type == "filesystem" and connection != Connection():
        raise InvalidArgument(f"storage {id!r} is a directory, which has no endpoint, region, path style or credentials")
    if type != "s3" and (connection.region or connection.path_style is not None):
        raise InvalidArgument(f"storage {id!r}: region and path style are options of s3 only")
    if connection.region and not _REGION.fullmatch(connection.region):
        raise InvalidArgument(f"storage {id!r}: a region has letters, digits and '-', as in eu-central-1")
    if connection.credentials and not _CREDENTIALS.fullmatch(connection.credentials):
        raise InvalidArgument(
            f"storage {id!r}: give credentials by reference, as in env:TENANT_A, which means the variables"
            " TENANT_A_ACCESS_KEY_ID and so on; the value itself is never taken"
        )
    return replace(connection, endpoint=_endpoint(id, connection.endpoint))


def _endpoint(id: str, endpoint: str) -> str:
    if not endpoint:
        return ""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), 0
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.hostname or extra or port == 0:
        raise InvalidArgument(f"storage {id!r}: an endpoint is http(s)://host[:port] only, without a user or password")
    return f"{parts.scheme}://{parts.netloc}"


def _kind(type: str) -> StorageType:
    if type.strip().lower() == "hdfs":
        raise Unsupported(
            "storage type hdfs is not supported: no Delta writer can create a file on HDFS only if it is absent;"
            " use filesystem on a mount that has hard links, or an object store"
        )
    kind = _TYPES.get(type.strip().lower())
    if kind is None:
        raise InvalidArgument(f"unknown storage type {type[:40]!r}; the types are {', '.join(_TYPES)}")
    return kind


def _place(id: str, kind: StorageType, base: str, bucket: str) -> str:
    """The URI that BUCKET or BASE_DIRECTORY means; with both, the directory is in the bucket."""
    schemes = _SCHEMES[kind]
    if bucket and kind == "filesystem":
        raise InvalidArgument(f"storage {id!r} is a directory and has no bucket: give its base directory")
    if bucket and ("://" in base or base.startswith("/")):
        raise InvalidArgument(f"storage {id!r}: give a bucket or a whole base directory, not both")
    if not (bucket or base):
        needed = (
            "a base directory" if kind == "filesystem" else f"a bucket, or a base directory such as {schemes[0]}://bucket/prefix"
        )
        raise InvalidArgument(f"storage {id!r} needs {needed}")
    if kind != "filesystem":
        whole = bucket or base
        whole = whole if "://" in whole else f"{schemes[0]}://{whole}"
        base = Location(whole).below(base).uri if bucket else whole
    place = canonical(base)
    if place.partition("://")[0].lower() not in schemes and ("://" in place or kind != "filesystem"):
        raise InvalidArgument(f"storage {id!r} is of type {kind}, whose places are {_example(kind)}, not {place}")
    if not place.strip("/"):
        raise InvalidArgument(f"storage {id!r}: the root of the file system cannot be a storage; give a directory of its own")
    delta_uri(place)
    return place


def _example(kind: StorageType) -> str:
    return "directories" if kind == "filesystem" else f"{_SCHEMES[kind][0]}://bucket/prefix"
