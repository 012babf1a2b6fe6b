"""The disk: everything that reads or writes a bundle. Nobody else writes into one."""
