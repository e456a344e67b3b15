"""`compact_job`: folds each scope's newest small files into one."""

from lakewarden.dagster.jobs.forms import op_on_scopes, takes_options
from lakewarden.dagster.jobs.runs import SPARK, WithLook, job_of, job_tags


@takes_options("compact")
class CompactConfig(WithLook):
    """Which scopes to compact. A scope whose tail has too few small files is skipped."""


_op = op_on_scopes("compact", CompactConfig, "Compact the scopes, and book one event for each.")
compact_job = job_of(_op, job_tags("compact", 0, SPARK), "Folds each scope's newest small files into one.")
