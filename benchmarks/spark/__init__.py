"""Lakewarden's source and sink for Spark, beside Delta's own."""
