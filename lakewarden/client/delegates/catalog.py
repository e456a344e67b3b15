"""The methods of `Lakehouse` that delegate to `lake.catalog`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.base.connection import Connection
from lakewarden.catalog.model import Column, Namespace, Storage, Table, TableType
from lakewarden.client.nouns import Nouns

if TYPE_CHECKING:
    from lakewarden.catalog.evolution import Alteration
    from lakewarden.maintenance.admin.settings import WarehouseSetting
    from lakewarden.tables.client import TableClient
    from lakewarden.tables.tags import Tag


class CatalogDelegates(Nouns):
    """The methods of `Lakehouse` that delegate to `lake.catalog`."""

    def create_namespace(self, name: str, *, if_not_exists: bool = False) -> None:
        """Creates a namespace."""
        self.catalog.create_namespace(name, if_not_exists=if_not_exists)

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drops a namespace; with `cascade`, its tables and views first."""
        self.catalog.drop_namespace(name, cascade=cascade)

    def settings(self) -> list[WarehouseSetting]:
        """The settings by which all processes of the warehouse go."""
        return self.catalog.settings()

    def alter_warehouse(self, changes: Mapping[str, object]) -> list[WarehouseSetting]:
        """Changes such settings, all or none; the value `default` sets one back."""
        return self.catalog.alter_warehouse(changes)

    def enable_engine(self, name: str, *, settings: str | None = None) -> Namespace:
        """Enables the engine of a namespace."""
        return self.catalog.enable_engine(name, settings=settings)

    def disable_engine(self, name: str) -> Namespace:
        """Disables the engine of a namespace: its tables take no reads, writes and jobs."""
        return self.catalog.disable_engine(name)

    def namespaces(self) -> list[Namespace]:
        """The namespaces."""
        return self.catalog.namespaces()

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
        """Creates a storage after testing writes, reads, lists and deletes there."""
        return self.catalog.storages.create(
            storage_id,
            type=type,
            base=base,
            bucket=bucket,
            user_template=user_template,
            shared_template=shared_template,
            name=name,
            description=description,
            connection=connection,
        )

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
        """Changes the given fields after testing the place with them."""
        return self.catalog.storages.alter(
            storage_id,
            user_template=user_template,
            shared_template=shared_template,
            name=name,
            description=description,
            endpoint=endpoint,
            region=region,
            path_style=path_style,
            credentials=credentials,
        )

    def adopt_storage(self, storage_id: str) -> Storage:
        """Marks what is at a storage's place now as the storage, after a loss or a restore."""
        return self.catalog.storages.adopt(storage_id)

    def drop_storage(self, storage_id: str, *, if_exists: bool = False) -> bool:
        """Drops a storage; False where it does not exist and `if_exists` allows that."""
        return self.catalog.storages.drop(storage_id, if_exists=if_exists)

    def storages(self) -> list[Storage]:
        """The storages."""
        return self.catalog.storages.all()

    def create_table(
        self,
        name: str,
        *,
        type: TableType = "SHARED",
        columns: Sequence[Column],
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        dynamic: bool = False,
    ) -> TableClient:
        """Creates a table of the type USER, SHARED or STREAM, or a dynamic one."""
        return self.catalog.create_table(
            name,
            type=type,
            columns=columns,
            primary_key=primary_key,
            partition_by=partition_by,
            options=options,
            if_not_exists=if_not_exists,
            dynamic=dynamic,
        )

    def alter_table(self, name: str, change: Alteration) -> Table:
        """Changes one thing of a table: a column, or its options."""
        return self.catalog.alter_table(name, change)

    def drop_table(self, name: str) -> None:
        """Drops a table and all its data; waits for the cleanup."""
        self.catalog.drop_table(name)

    def create_view(self, name: str, text: str, *, or_replace: bool = False) -> None:
        """Stores a query under a name."""
        self.catalog.create_view(name, text, or_replace=or_replace)

    def drop_view(self, name: str) -> None:
        """Drops a view."""
        self.catalog.drop_view(name)

    def tables(self, namespace: str | None = None) -> list[Table]:
        """The tables, of all namespaces or of one."""
        return self.catalog.tables(namespace)

    def table(self, name: str) -> TableClient:
        """The client of one table."""
        return self.catalog.table(name)

    def tag(self, table: str, name: str, *, user: str | None = None, version: int | None = None) -> Tag:
        """Names a version of a scope, by default the newest."""
        return self.catalog.tags.add(table, name, user=user, version=version)

    def tags(self, table: str, *, user: str | None = None) -> list[Tag]:
        """The tags of a table, or of one user's scope, by user and name."""
        return self.catalog.tags.of(table, user=user)

    def drop_tag(self, table: str, name: str, *, user: str | None = None) -> None:
        """Removes a tag; the next vacuum may take the version."""
        self.catalog.tags.drop(table, name, user=user)
