"""Spark's own access to S3, `s3a://`: the JARs that it needs, and how it finds a bucket."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakewarden.base.connection import Location
from lakewarden.errors import Corrupt, StorageRefused, StorageUnavailable
from lakewarden.storage.options import s3a_options

HADOOP = "3.4.2"
"""pyspark's Hadoop version: the connector has to have the same."""

_SDK = "2.29.52"
"""The version that this Hadoop was built with."""

PACKAGES = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3:{_SDK}",
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
    f"software.amazon.awssdk:sts:{_SDK}",
)

EXCLUDED = ("software.amazon.awssdk:bundle",)
"""All of Amazon's services in one JAR of 640 MB. The connector only uses the modules above: 13 MB."""

CONF = {
    "spark.jars.excludes": ",".join(EXCLUDED),
    # Tasks put their files where they belong; otherwise the driver copies each of them once more, one after the other.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}


_WHOLE = {"multipart.uploads.enabled": "false"}
"""A file is one request. If an upload in parts dies, its parts stay, with rows in them, where no listing shows them."""

_NO_NAME = re.compile(r"[\[\]{}*?\\:]")
"""What Hadoop does not take for a plain part of a path."""


def connect(spark: SparkSession, location: Location, environment: Mapping[str, str]) -> bool:
    """Configures Spark to reach the location's bucket. Credentials are given by the names of their variables.

    Returns False, and changes nothing, if it already reaches a bucket of that name in another way: Hadoop
    keeps one connection for a name.

    Raises:
        StorageRefused: the environment lacks what the location's credentials refer to.
    """
    known = spark.sparkContext._jsc.hadoopConfiguration()  # pyspark's own way to it
    bucket = f"fs.s3a.bucket.{_bucket(location)}"
    options = s3a_options(location, environment) | {f"{bucket}.{name}": value for name, value in _WHOLE.items()}
    mark = f"{bucket}.lakewarden"
    if known.getRaw(mark) not in (None, str(options)):
        return False
    for name, value in (options | {mark: str(options)}).items():
        known.set(name, value)
    return True


def reaches(spark: SparkSession, location: Location, paths: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether Hadoop can take these for paths, and Spark reaches them; raises as `connect`."""
    scheme, _, place = location.uri.partition("://")
    return scheme == "s3" and not any(map(_NO_NAME.search, (place, *paths))) and connect(spark, location, environment)


def read(spark: SparkSession, location: Location, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
    """The rows of Parquet files below the location, their columns found by name.

    Raises:
        Corrupt: a file is missing.
        StorageRefused, StorageUnavailable: the store refuses, or cannot be reached.
    """
    with explained(f"cannot read the files of {location} over s3a"):
        return spark.read.schema(from_arrow_schema(schema)).parquet(*(uri(location, path) for path in paths))


def uri(location: Location, path: str) -> str:
    return f"s3a{location.uri.removeprefix('s3')}/{path}"


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raises Spark's errors as ours; `what` begins the message."""
    try:
        yield
    except AnalysisException as error:
        raise Corrupt(f"{what}: {_line(str(error))}") from error
    except (PySparkException, Py4JJavaError) as error:
        said = str(error.java_exception if isinstance(error, Py4JJavaError) else error)
        kind = StorageRefused if "AccessDeniedException" in said else StorageUnavailable
        raise kind(f"{what}: {_line(said)}") from error


def _line(text: str) -> str:
    return text.partition("\n")[0]


def _bucket(location: Location) -> str:
    return location.uri.partition("://")[2].partition("/")[0]
