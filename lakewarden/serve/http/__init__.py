"""HTTP: its routes, bodies, answers and errors."""
