"""The storages of a warehouse."""

from __future__ import annotations

from lakewarden.base.connection import Connection
from lakewarden.catalog.model import Storage
from lakewarden.client.parts import Noun


class StorageCalls(Noun):
    """The calls of `lake.catalog.storages`, as `Lakehouse` has them."""

    def create_storage(
        self,
        storage_id: str,
        *,
        type: str,
        base: str = "",
        bucket: str = "",
        user_template: str = "",
        shared_template: str = "",
        name: str = "",
        description: str = "",
        connection: Connection = Connection(),
    ) -> Storage:
        """Creates a storage after testing writes, reads, lists and deletes there; empty templates mean the defaults.

        Args:
            type: `filesystem` (also `local`), `s3`, `gcs` or `azure`.
            base: a directory, or a URI such as `s3://bucket/prefix`; with `bucket`, a prefix in it.
            bucket: of an object store; the scheme is added.
            connection: endpoint, region, path style and credentials (by reference) that the environment does not provide.

        Raises:
            AlreadyExists, InvalidArgument, InUse: the id is taken or not valid, a template or the base is not valid, or the
                place belongs to another warehouse.
            StorageRefused, StorageUnavailable: the place cannot be written or reached.
        """
        from lakewarden.maintenance.admin.storages import StorageDeclaration, make_storage, new_storage

        declared = StorageDeclaration(
            storage_id, type, base, bucket, connection, user_template, shared_template, name, description
        )
        return make_storage(self._parts.warehouse, new_storage(declared, self._parts.warehouse.clock()))

    def alter_storage(
        self,
        storage_id: str,
        *,
        user_template: str | None = None,
        shared_template: str | None = None,
        name: str | None = None,
        description: str | None = None,
        endpoint: str | None = None,
        region: str | None = None,
        path_style: bool | None = None,
        credentials: str | None = None,
    ) -> Storage:
        """Changes the given fields after testing the place with them.

        A template can change only while no table of its type is on the storage.
        """
        from lakewarden.maintenance.admin.storages import StorageChange, change_storage

        change = StorageChange(user_template, shared_template, name, description, endpoint, region, path_style, credentials)
        return change_storage(self._parts.warehouse, storage_id, change)

    def adopt_storage(self, storage_id: str) -> Storage:
        """Marks the present content of a storage's place as the storage, after its disk or bucket was lost, or restored
        without its marker. Nothing else makes the warehouse use it again.

        Raises:
            NotFound: the storage does not exist.
            InUse: the place belongs to another storage or warehouse.
        """
        from lakewarden.maintenance.admin.storages import adopt_storage

        return adopt_storage(self._parts.warehouse, storage_id)

    def drop_storage(self, storage_id: str, *, if_exists: bool = False) -> bool:
        """Drops a storage; returns False if it does not exist and `if_exists` is given.

        Raises:
            NotFound: the storage does not exist.
            InUse: tables or users' scopes are on it.
        """
        from lakewarden.maintenance.admin.storages import remove_storage

        if if_exists and storage_id not in self._parts.warehouse.catalog.read().storages:
            return False
        remove_storage(self._parts.warehouse, storage_id)
        return True

    def storages(self) -> list[Storage]:
        """The storages."""
        return list(self._parts.warehouse.catalog.read().storages.values())


class Storages(StorageCalls):
    """`lake.catalog.storages`: the same by shorter names."""

    create = StorageCalls.create_storage
    alter = StorageCalls.alter_storage
    adopt = StorageCalls.adopt_storage
    drop = StorageCalls.drop_storage
    all = StorageCalls.storages
