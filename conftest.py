"""The suite's own plugins: pytester runs the batches of tests/plugin."""

pytest_plugins = ["pytester"]
