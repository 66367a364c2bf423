"""Tools for testing programs that run on CuPy; nothing here imports the rest of gradlib."""
