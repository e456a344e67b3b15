"""Where the ledgers of pipelines are in the state: `pipelines/<pipeline id>/…`."""

from __future__ import annotations

from lakewarden.storage.objects import ObjectStore

ROOT = "pipelines"


def forget_ledger(store: ObjectStore, pipeline_id: str) -> None:
    """Removes the ledger of a pipeline that was dropped."""
    store.delete(store.keys(f"{ROOT}/{pipeline_id}"))
