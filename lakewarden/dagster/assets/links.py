"""Links to the launchpad with its form filled in."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

import dagster as dg
from dagster_shared.yaml_utils import dump_run_config_yaml

_PARTITION = "dagster/partition"


def launchpad(job: str, config: Mapping[str, object], partition: str | None = None) -> str:
    """The URL of a job's form, filled; relative to the web server, whatever its address and the code location's name.

    Args:
        config: of the job's only op, which has the job's name without `_job`.
        partition: the partition that the form selects.
    """
    form = dump_run_config_yaml({"ops": {job.removesuffix("_job"): {"config": dict(config)}}}, sort_keys=False)
    tags = {} if partition is None else {"tags[0][key]": _PARTITION, "tags[0][value]": partition}
    return f"/guess/{job}/playground/setup?{urlencode({'config': form, **tags}, quote_via=quote)}"


def link(text: str, url: str) -> dg.MetadataValue:
    """A link as metadata; `MetadataValue.url` would show the whole URL, and takes no relative one for a link's text."""
    return dg.MetadataValue.md(f"[{text}]({url})")
