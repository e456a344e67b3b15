"""The source of a pipeline: where it is, how it is reached, and what the name of an object means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from lakewarden.base.connection import Connection, Location
from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Pipeline
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.ingest.pipelines.rules import matches
from lakewarden.storage.finding import find_files
from lakewarden.storage.location import canonical, join, within
from lakewarden.storage.objects import Missing
from lakewarden.storage.sources import ObjectSource, SourceObject, open_source
from lakewarden.tables.warehouse import Warehouse

_WILD = re.compile(r"[*?\[]")


def default_source(table: TableName) -> str:
    """One place below the warehouse for all pipelines of a namespace."""
    return f"uploads/{table.namespace}"


def source_uri(warehouse: Warehouse, pipeline: Pipeline) -> str:
    apart = "://" in pipeline.source or pipeline.source.startswith("/")
    return pipeline.source if apart else join(warehouse.uri, pipeline.source)


def source_of(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline) -> PipelineSource:
    connection, uri = Connections.of(warehouse, catalog), canonical(source_uri(warehouse, pipeline))
    return PipelineSource(open_source(Location(uri, connection(uri))), connection)


@dataclass(frozen=True)
class Connections:
    """How places are reached: by the storages of the warehouse, as their bases and connections."""

    bases: tuple[tuple[str, Connection], ...]

    @classmethod
    def of(cls, warehouse: Warehouse, catalog: Catalog) -> Connections:
        storages = catalog.storages.values()
        return cls(tuple((canonical(warehouse.base(storage)), storage.connection) for storage in storages))

    def around(self, uri: str) -> Connection | None:
        """That of the innermost storage which is around the place."""
        around = [(len(base), connection) for base, connection in self.bases if within(uri, base)]
        return max(around, key=lambda one: one[0])[1] if around else None

    def __call__(self, uri: str) -> Connection:
        """That of the storage which is around the place; else of one in the same bucket; else the environment decides."""
        if (around := self.around(uri)) is not None:
            return around
        bucket = uri.split("/")[:3] if "://" in uri else None
        return next((connection for base, connection in self.bases if bucket and base.split("/")[:3] == bucket), Connection())


@dataclass(frozen=True)
class PipelineSource(ObjectSource):
    """The place of a pipeline's objects, and objects elsewhere, whose keys are their whole URIs or absolute paths. Picklable.

    No key of the place itself looks like one: a part of it would be empty.
    """

    own: ObjectSource
    connection: Connections

    @property
    def uri(self) -> str:
        return self.own.uri

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        return self.own.uploads(after, below=below)

    def look(self, key: str) -> SourceObject:
        source, name = self._split(key)
        return replace(source.look(name), key=key)

    def open(self, uploaded: SourceObject) -> BinaryIO:
        source, name = self._split(uploaded.key)
        return source.open(replace(uploaded, key=name))

    def prove(self, uploaded: SourceObject) -> None:
        source, name = self._split(uploaded.key)
        source.prove(replace(uploaded, key=name))

    def named(self, name: str, *, anywhere: bool) -> list[SourceObject]:
        """The objects that a caller means: a key, an absolute path or a URI, or a pattern of them.

        Args:
            anywhere: also objects outside of the pipeline's place; a relative path is one below the working directory then.

        Raises:
            NotFound: there is no such object.
        """
        key = name
        if _is_apart(name):
            place = f"{self.uri.rstrip('/')}/"
            full = _canonical(name)
            key = full.removeprefix(place)
        if not _is_apart(key):
            try:
                return [self.own.look(key)]
            except Missing:
                if _WILD.search(key) and (found := [one for one in self.own.uploads() if matches(key, one.key)]):
                    return found
        if anywhere:
            return [self.look(one.uri) for one in find_files(name, self.connection)]
        raise NotFound(f"there is no object {name[:200]!r} in {self.uri}")

    def _split(self, key: str) -> tuple[ObjectSource, str]:
        if not _is_apart(key):
            return self.own, key
        place, _, name = key.rpartition("/")
        return open_source(Location(place or "/", self.connection(place))), name


def _is_apart(key: str) -> bool:
    return key.startswith("/") or "://" in key


def _canonical(name: str) -> str:
    try:
        return canonical(name)
    except InvalidArgument as error:
        raise NotFound(f"there is no object {name[:200]!r}: {error.message}") from error
