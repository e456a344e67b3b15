"""As `lakewarden.ingest.templates`."""
