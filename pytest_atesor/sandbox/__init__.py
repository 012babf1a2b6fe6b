"""Sandboxes: the riscv64 containers that cases run in, the engines that hold them, their images and slots."""
