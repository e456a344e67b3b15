"""`optimize_job`: packs each scope's files to the target size, or clusters them by columns."""

from lakewarden.dagster.jobs.forms import op_on_scopes, takes_options
from lakewarden.dagster.jobs.runs import SPARK, WithLook, job_of, job_tags


@takes_options("optimize")
class OptimizeConfig(WithLook):
    """Which scopes to optimize, and how. A rewrite that is not worth its bytes is skipped, and the run shows why."""


_op = op_on_scopes("optimize", OptimizeConfig, "Optimize the scopes, and book one event for each.")
optimize_job = job_of(_op, job_tags("optimize", -5, SPARK), "Packs each scope's files to the target size.")
