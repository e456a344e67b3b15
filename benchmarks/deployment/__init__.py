"""What Dagster costs where a table has many users: booking, ticks, planning, pages, and whole flushes."""
