"""Templates: named functions that read an object of some format as Arrow rows."""
