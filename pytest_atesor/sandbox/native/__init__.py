"""The native target: sandboxes on the user's own riscv64 machine, reached with the user's own ssh."""
