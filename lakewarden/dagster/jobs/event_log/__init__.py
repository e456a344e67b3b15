"""What is removed from Dagster's own storage: an erased user, and events that no page needs."""
