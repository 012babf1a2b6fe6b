"""A pytest plugin that runs batches of riscv64 ports and proves their results.

Importing this package costs nothing: the plugin stands in ``pytest_atesor.plugin``, the command line in
``pytest_atesor.cli``, the built-in agent in ``pytest_atesor.porter``.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
