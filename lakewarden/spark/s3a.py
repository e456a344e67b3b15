"""Spark's own way to objects on S3, `s3a://`: the JARs that it needs, and how it finds a bucket."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakewarden.connection import Location
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


def connect(session: SparkSession, location: Location, environment: Mapping[str, str]) -> None:
    """Tells this session how the location's bucket is reached. Credentials are told by the names of their variables.

    Raises:
        StorageRefused: the environment lacks what the location's credentials refer to.
    """
    known = session.sparkContext._jsc.hadoopConfiguration()  # pyspark's own way to it
    for name, value in s3a_options(location, environment).items():
        known.set(name, value)
