"""warehouse.json: the id and the format of a warehouse, and the creation of a new one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import msgspec

from lakewarden.base.clock import NewId
from lakewarden.base.connection import Location
from lakewarden.base.settings import Settings
from lakewarden.catalog.changes.objects import LOCAL, LOCAL_BASE, alter_storage, fold_case, identify
from lakewarden.catalog.kept_settings import take_over
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import Corrupt, InUse
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import AlreadyThere, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import StorageOwner, claim
from lakewarden.storage.paths import check_template
from lakewarden.storage.probe import mark_probed, probe
from lakewarden.storage.sums import kept_as

FILE = "warehouse.json"

FIRST_FORMAT = 1
"""The format of early releases: no identities, no floors, and segments that do not name their predecessors."""

INDEXED_FORMAT = 3
"""As 2, in which storages have identities, tables have floors, and segments name their predecessors (docs/decisions/0018, 0020);
and segments and lists with many users are read in parts (docs/decisions/0031)."""

NEWEST_FORMAT = INDEXED_FORMAT


@dataclass(frozen=True)
class Identity:
    """The id of a warehouse, and the format of the objects under `_lakewarden/`."""

    format: int
    id: str


def read_identity(state: ObjectStore) -> Identity:
    """Reads warehouse.json.

    Raises:
        Missing: the warehouse does not exist.
        Corrupt: the file cannot be read, or is of a later format.
    """
    identity = kept_as(Identity, state.get(FILE), f"{state.uri}/{FILE} does not name a warehouse")
    if not FIRST_FORMAT <= identity.format <= NEWEST_FORMAT:
        raise Corrupt(
            f"{state.uri} has format {identity.format}; this version of Lakewarden reads formats"
            f" {FIRST_FORMAT} to {NEWEST_FORMAT}: use the release that made it, or a later one"
        )
    return identity


def found_warehouse(uri: str, state: ObjectStore, catalog: CatalogStore, new_id: NewId, begins: Settings) -> Identity:
    """Creates a warehouse after probing its own storage. Of several processes the first one wins: the marker of its storage
    names the id, and warehouse.json, which is created last, repeats it.

    Args:
        begins: the templates of its own storage, and the settings that it keeps.

    Raises:
        InvalidArgument: a bad template; nothing was written.
        InUse: the storage's place has the data of another warehouse.
        StorageRefused, StorageUnavailable: the place cannot be written or reached.
    """
    user = check_template("USER", begins.storage.user_tables_template)
    shared = check_template("SHARED", begins.storage.shared_tables_template)
    data = open_store(Location(uri).below(LOCAL_BASE))
    # Before anything is written: a place that cannot create an object only once must never hold a warehouse
    # (docs/decisions/0110-stores-that-ignore-conditions.md).
    folds = probe(data, new_id)
    if local_path(uri) is None:
        mark_probed(state, Location(uri))  # the state is in the same bucket

    def step(before: Catalog) -> Catalog:
        folded = fold_case(before, LOCAL) if folds else before
        placed = folded if before.version else alter_storage(folded, LOCAL, user_template=user, shared_template=shared)
        return identify(take_over(placed, begins), LOCAL, new_id())

    identity = catalog.change(step).storages[LOCAL].identity
    # Behind the catalog, whose identity it repeats; two founders agree on both by what was created first.
    owner = claim(data, StorageOwner(new_id(), identity))
    # Data with another identity is of a warehouse whose state is gone: a new one must not take it over.
    if owner.identity != identity:
        raise InUse(
            f"cannot create a warehouse at {uri}: {data.uri} has the data of warehouse {owner.warehouse}, whose {state.uri} is"
            " missing: restore that from a backup, or choose another place"
        )
    with suppress(AlreadyThere):
        # Last: a warehouse exists once this is there, and all else that it needs is there before.
        state.create(FILE, msgspec.json.encode(Identity(NEWEST_FORMAT, owner.warehouse)))
    return read_identity(state)
