"""Reports: values in, text out. Nothing here looks at a terminal, a file or a clock."""
