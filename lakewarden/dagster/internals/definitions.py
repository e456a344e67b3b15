"""The private names of definitions, resources and tags."""

from __future__ import annotations

from dagster._config.pythonic_config import ConfigurableResourceFactory
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG, PARTITION_NAME_TAG

__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "PARTITION_NAME_TAG",
    "SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION",
    "ConfigurableResourceFactory",
    "UnresolvedAssetJobDefinition",
]
