"""Queries on one large partitioned table, computed partition by partition."""
