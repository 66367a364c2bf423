"""Doors to other libraries and to files."""
