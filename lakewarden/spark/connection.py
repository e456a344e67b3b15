"""What Spark's Python workers keep between tasks of the archives that they import from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from zipimport import zipimporter

import msgspec
from pyspark.errors import PySparkException

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.settings import Settings
from lakewarden.errors import LakewardenError
from lakewarden.tables.warehouse import Warehouse


def forget_archives() -> None:
    """Saves the worker's next task a third of a second. To be called where a task ends.

    Before each task pyspark invalidates the import caches, for which Python reads the directory of every archive that it
    ever looked into: pyspark's own, and those of its JARs. Forgotten ones are opened again if an import comes to them.
    """
    for path in [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]:
        del sys.path_importer_cache[path]


@dataclass(frozen=True)
class SparkConnection:
    """Where a source finds its warehouse. Picklable, without credentials."""

    uri: str
    settings: bytes
    """As JSON."""
    cores: int
    """Tasks that run at once."""

    @classmethod
    def of(cls, uri: str, settings: Settings, cores: int) -> SparkConnection:
        return cls(uri, msgspec.json.encode(settings), cores)

    def open(self) -> Warehouse:
        """Raises NotFound: the warehouse does not exist."""
        return _opened(self.uri, self.settings)


@lru_cache(maxsize=16)
def _opened(uri: str, settings: bytes) -> Warehouse:
    return Warehouse.open(uri, msgspec.json.decode(settings, type=Settings), system_clock, random_id, create=False)


@contextmanager
def called_by_spark() -> Iterator[None]:
    """What Spark calls runs in this. An error becomes one of Spark whose message begins with its code: of an error of Python,
    Spark keeps the text alone."""
    try:
        yield
    except LakewardenError as error:
        raise PySparkException(f"{error.code}: {error.message}") from error
    finally:
        forget_archives()
