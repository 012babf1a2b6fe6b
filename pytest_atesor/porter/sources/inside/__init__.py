"""Programs that run inside the sandbox, each one file that needs only Python's standard library."""
