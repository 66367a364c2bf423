"""The only room that tells NumPy from CuPy: devices, dtypes, promotion, arrays."""
