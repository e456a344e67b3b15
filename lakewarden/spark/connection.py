"""A warehouse as Spark's processes reach it: each opens it once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from pyspark.errors import PySparkException

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.settings import Settings
from lakewarden.errors import LakewardenError
from lakewarden.spark.archives import forget_archives
from lakewarden.tables.warehouse import Warehouse


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
        """Raises:
        NotFound: the warehouse does not exist.
        """
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
