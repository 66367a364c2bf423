"""Tools for testing programs that run on CuPy; of the rest of gradlib they import only what is in `backend`."""
