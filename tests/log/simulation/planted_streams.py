"""Rules of batches that bear an identity, taken away one at a time (as `planted`)."""

from __future__ import annotations

from lakewarden.log.objects import staging as staged
from lakewarden.log.objects import writer
from lakewarden.log.objects.cuts import settle
from lakewarden.log.once import Staging
from tests.log.simulation.planted import Fault
from tests.log.simulation.schedule import STREAMS


def _never_there(*_: object) -> bool:
    return False


def _forgets(*_: object) -> dict[str, int]:
    return {}


def _wherever(*_: object) -> None:
    return None


def _of_nobody(put_id: str, stored_at: int, since: int, *_: object) -> Staging:
    return Staging(put_id, stored_at, since)


STREAM_FAULTS = (
    Fault("publishes a batch that is there", ((writer, "_stands_for", _never_there),), STREAMS),
    Fault("a cut forgets which batches it settled", ((settle, "remember_published", _forgets),), STREAMS),
    Fault("publishes behind positions that it has not read", ((writer, "position_of", _wherever),), STREAMS),
    Fault("publishes what an erasure removed that was in progress", ((staged, "Staging", _of_nobody),), STREAMS),
)
