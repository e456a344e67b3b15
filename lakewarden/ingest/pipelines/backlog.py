"""Which of some objects a pipeline has still to take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lakewarden.catalog.model import IngestRule
from lakewarden.catalog.state.ledger import LOOKS, Ledger
from lakewarden.ingest.pipelines.rules import takes
from lakewarden.storage.objects import Missing
from lakewarden.storage.sources import SourceObject


def untaken(ledger: Ledger, rule: IngestRule, objects: Sequence[SourceObject]) -> list[SourceObject]:
    """Those that the rule takes, and that the ledger does not have with this ETag. A batch that is not settled does not count."""
    wanted = [one for one in objects if takes(rule, one.key, one.size)]
    for _ in range(LOOKS):
        with suppress(Missing):  # runs were merged since the look
            known = ledger.known(ledger.look(), [one.key for one in wanted])
            return [one for one in wanted if one.key not in known or not known[one.key].is_of(one.etag)]
    raise ledger.busy()
