"""The JSON Schemas (Draft 2020-12) of every file that this project reads or writes, as package data."""
