"""The relations of `pg_catalog` and `information_schema`, made of what the session may see, and the queries over them."""
