"""The ledger of a pipeline: which objects were taken, with which ETag, each once (docs/decisions/0054-ledger-of-pipelines.md)."""
