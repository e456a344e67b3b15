"""The relays of tables with `log.system` kafka, which run by themselves while a server does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lakewarden.client import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.ingest.relay.background import NO_TOPIC_SECONDS

_LOGGER = logging.getLogger("lakewarden.serve.relays")
_STOPPED_WITHIN = 5.0
"""Seconds; a look at a broker that is away may take longer, and ends with the process."""


@contextmanager
def relaying_meanwhile(lake: Lakehouse) -> Iterator[None]:
    """Publishes in the block, from a thread, what topics lack. Where no table has one, it looks at the catalog now and then."""
    stopping = threading.Event()
    thread = threading.Thread(target=_relay, args=(lake, stopping), name="relays", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(_STOPPED_WITHIN)


def _relay(lake: Lakehouse, stopping: threading.Event) -> None:
    with lake.topics.relaying_in_background() as relays:
        pause = 0.0
        while not stopping.wait(pause):
            try:
                for each in relays.look():
                    if each.error is not None:
                        _LOGGER.warning("relay of %s: %s: %s", each.table, each.error.code, each.error.message)
                pause = relays.pause()
            except LakewardenError as error:  # the catalog cannot be read
                _LOGGER.warning("relays: %s: %s", error.code, error.message)
                pause = NO_TOPIC_SECONDS
