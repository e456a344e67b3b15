"""What Dagster loads from this checkout: a deployment to copy. The library is `lakewarden/dagster/`."""
