"""The storages of a warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.catalog.model import Storage
from lakewarden.connection import Connection
from lakewarden.warehouse import Warehouse


@dataclass(frozen=True)
class Storages:
    """`lake.catalog.storages`."""

    warehouse: Warehouse

    def create(
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
        """Creates a storage, after trying to write, read, list and delete there; empty templates mean the defaults.

        Args:
            type: `filesystem` (also `local`), `s3`, `gcs` or `azure`.
            base: a directory, or a URI such as `s3://bucket/prefix`; beside `bucket`, a prefix in it.
            bucket: of an object store; the scheme is added.
            connection: endpoint, region, path style and credentials (by reference) where the environment does not say them.

        Raises:
            AlreadyExists, InvalidArgument, InUse: the id is taken or none, a template or the base can't be, or the place is
                another warehouse's.
            StorageRefused, StorageUnavailable: the place can't be written or reached.
        """
        from lakewarden.admin.storages import make_storage, new_storage

        wanted = new_storage(
            storage_id,
            type,
            base,
            bucket=bucket,
            connection=connection,
            user_template=user_template,
            shared_template=shared_template,
            name=name,
            description=description,
            now=self.warehouse.clock(),
        )
        return make_storage(self.warehouse, wanted)

    def alter(
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
        """Changes what is given, after trying the place as it will be reached then.

        A template changes only while no table of its type lies on the storage.
        """
        from lakewarden.admin.storages import StorageChange, change_storage

        change = StorageChange(user_template, shared_template, name, description, endpoint, region, path_style, credentials)
        return change_storage(self.warehouse, storage_id, change)

    def adopt(self, storage_id: str) -> Storage:
        """Marks what is at a storage's place now as the storage, after its disk or bucket was lost for good, or restored without
        its marker. Nothing else makes the warehouse use it again.

        Raises:
            NotFound: there is none.
            InUse: the place is another storage's, or another warehouse's.
        """
        from lakewarden.admin.storages import adopt_storage

        return adopt_storage(self.warehouse, storage_id)

    def drop(self, storage_id: str, *, if_exists: bool = False) -> bool:
        """Drops a storage; False where there is none and `if_exists` says that this is no error.

        Raises:
            NotFound: there is none.
            InUse: tables or users' scopes lie on it.
        """
        from lakewarden.admin.storages import remove_storage

        if if_exists and storage_id not in self.warehouse.catalog.read().storages:
            return False
        remove_storage(self.warehouse, storage_id)
        return True

    def all(self) -> list[Storage]:
        """The storages."""
        return list(self.warehouse.catalog.read().storages.values())
