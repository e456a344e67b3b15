"""All that is used of Dagster beyond what it exports: the one place to look at when a new release moves something.

Here are names of definitions, events and ticks; those of storages and launchers, which load SQLAlchemy, are in
`instance_internals`. No other module imports `dagster._…`; `tests/dagster/test_internals.py` says what stops working without
each name, and holds both rules.
"""

from __future__ import annotations

from dagster._config.pythonic_config import ConfigurableResourceFactory
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.events import AssetMaterializationPlannedData, DagsterEventBatchMetadata
from dagster._core.scheduler.instigation import InstigatorState, InstigatorTick, TickStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG, PARTITION_NAME_TAG
