"""Assets of this deployment's own, downstream of the warehouse's tables, which `build_definitions` makes."""
