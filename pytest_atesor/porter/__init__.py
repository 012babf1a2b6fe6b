"""The built-in agent: ports one upstream package to riscv64 inside one sandbox.

It runs as a process of its own (``python -m pytest_atesor.porter``) with the flags, environment and exit
codes that any other agent has. It imports ``core`` and ``sandbox`` and never the plugin. Nothing from the
package's tree is executed on the host, and nothing of it is read there through a symlink.
"""
