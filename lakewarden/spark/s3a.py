"""Spark's own way to objects on S3, `s3a://`: the JARs that it needs, and how it finds a bucket."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakewarden.connection import Location
from lakewarden.errors import Corrupt, StorageRefused, StorageUnavailable
from lakewarden.storage.options import s3a_options

HADOOP = "3.4.2"
"""The one that pyspark brings: the connector has to be of the same version."""

_SDK = "2.29.52"
"""The one that this Hadoop was built with."""

PACKAGES = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"software.amazon.awssdk:s3:{_SDK}",
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
    f"software.amazon.awssdk:sts:{_SDK}",
)

EXCLUDED = ("software.amazon.awssdk:bundle",)
"""Every service of Amazon's in one JAR of 640 MB. What the connector uses of it are the modules above: 13 MB."""

CONF = {
    "spark.jars.excludes": ",".join(EXCLUDED),
    # Tasks put their files where they belong; otherwise the driver copies each of them once more, one after the other.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}


_NO_NAME = re.compile(r"[\[\]{}*?\\:]")
"""What Hadoop does not take for a plain part of a path."""


def connect(session: SparkSession, location: Location, environment: Mapping[str, str]) -> bool:
    """Tells this session how the location's bucket is reached. Credentials are told by the names of their variables.

    Returns False, and changes nothing, where the session reaches a bucket of that name in another way already: Hadoop
    keeps one connection for a name.

    Raises:
        StorageRefused: the environment lacks what the location's credentials refer to.
    """
    known = session.sparkContext._jsc.hadoopConfiguration()  # pyspark's own way to it
    options = s3a_options(location, environment)
    mark = f"fs.s3a.bucket.{_bucket(location)}.lakewarden"
    if known.getRaw(mark) not in (None, str(options)):
        return False
    for name, value in (options | {mark: str(options)}).items():
        known.set(name, value)
    return True


def reads(session: SparkSession, location: Location, paths: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether `read` can read these; raises as `connect`."""
    scheme, _, place = location.uri.partition("://")
    return scheme == "s3" and not any(map(_NO_NAME.search, (place, *paths))) and connect(session, location, environment)


def read(session: SparkSession, location: Location, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
    """The rows of Parquet files below the location, their columns found by name.

    Raises:
        Corrupt: a file is missing.
        StorageRefused, StorageUnavailable: the store says no, or cannot be reached.
    """
    uri = f"s3a{location.uri.removeprefix('s3')}"
    try:
        return session.read.schema(from_arrow_schema(schema)).parquet(*(f"{uri}/{path}" for path in paths))
    except AnalysisException as error:
        raise Corrupt(f"cannot read the files of {location} over s3a: {_line(str(error))}") from error
    except Py4JJavaError as error:
        said = str(error.java_exception)
        kind = StorageRefused if "AccessDeniedException" in said else StorageUnavailable
        raise kind(f"cannot read the files of {location} over s3a: {_line(said)}") from error


def _line(text: str) -> str:
    return text.partition("\n")[0]


def _bucket(location: Location) -> str:
    return location.uri.partition("://")[2].partition("/")[0]
