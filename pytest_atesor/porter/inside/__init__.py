"""Programs that run inside the sandbox, with nothing but its Python's standard library."""
