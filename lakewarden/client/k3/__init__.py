"""`lake.k3`: every call of K3 Tables, by its name in snake_case, with K3's rules and wire forms.

What they do is done by the rooms below. Begin with `calls.py`.
"""

from __future__ import annotations

from lakewarden.client.k3.buckets import Buckets
from lakewarden.client.k3.rows import RowWrites
from lakewarden.client.k3.statements import StatementCalls
from lakewarden.client.k3.tables import PipelineCalls
from lakewarden.client.k3.upkeep import Inspection, UpkeepCalls
from lakewarden.sql.session import SqlSession


class K3(Buckets, PipelineCalls, RowWrites, StatementCalls, Inspection, UpkeepCalls):
    """K3's calls: arguments by K3's field names, answers as plain dicts in K3's wire form, errors of Lakewarden.

    A later insert of a key wins, queries are EVENTUAL unless they say otherwise, and a write without a WHERE on the merge keys
    goes straight into Delta (docs/decisions/0049-k3-as-a-facade.md).
    """

    def _session(self, bucket: str) -> SqlSession:
        return SqlSession(self._services, self._principal, "k3", bucket, refuses_blocks="K3's calls have no transaction block")
